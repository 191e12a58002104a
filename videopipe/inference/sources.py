"""Finding videos: files, folders, globs, list files, manifests with time ranges, standard input.

Nothing given by a user vanishes: what is named and not there is still a source (its row will say
so), a folder that cannot be read is a recorded problem, and files passed over are counted.
"""

import glob
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from videopipe.data.listing import VIDEO_SUFFIXES
from videopipe.data.manifest import DATASET_FILE, RECORDS_FILE, read_manifest
from videopipe.errors import DataError
from videopipe.inference.manifests import MANIFEST_SUFFIXES, Source, read_list, read_manifest_file

LIST_SUFFIXES = (".txt", ".lst", ".list")
# Containers that may hold moving pictures. Sound files are among them on purpose: a film without
# pictures gets a row that says so, and is not silently missing from the table.
MEDIA_SUFFIXES = VIDEO_SUFFIXES | frozenset(
    ".aac .flac .m4a .mka .mp3 .oga .ogg .opus .wav .wma".split()  # noqa: SIM905
)


@dataclass
class Listing:
    """What was found, in an order that depends on names only."""

    sources: list[Source] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # folders and patterns without an answer
    skipped: Counter[str] = field(default_factory=Counter)  # suffix -> files that are no video


def find_videos(arguments: Iterable[str | os.PathLike[str] | Source]) -> Listing:
    """Every video that `arguments` name, each once, in the order given and sorted inside folders.

    Raises `DataError` when there is none at all, since that is nearly always a mistyped path.
    """
    listing, seen = Listing(), set()
    given = [entry if isinstance(entry, Source) else os.fspath(entry) for entry in arguments]
    for argument in given:
        for source in _expand(argument, listing):
            # The same file named twice is one video; a range of it is another.
            identity = (Path(source.path).absolute(), source.start_seconds, source.end_seconds)
            if identity not in seen:
                seen.add(identity)
                listing.sources.append(source)
    nowhere = [entry for entry in given if isinstance(entry, str) and _is_nowhere(entry)]
    if not listing.sources or len(nowhere) == len(given):
        listing.problems += [f"{entry}: no such file or folder" for entry in nowhere]
        raise DataError(_nothing_found(given, listing))
    return listing


def _expand(argument: str | Source, listing: Listing) -> Iterator[Source]:
    if isinstance(argument, Source):
        yield argument
        return
    suffix = Path(argument).suffix.lower()
    if argument == "-":
        yield from (Source(line) for line in read_list(sys.stdin.buffer))
    elif Path(argument).is_dir():
        yield from _manifest_or_folder(argument, listing)
    elif not Path(argument).exists() and glob.has_magic(argument):
        yield from _matching(argument, listing)
    elif suffix in LIST_SUFFIXES:
        with _opened(argument) as file:
            yield from (Source(_beside(line, argument)) for line in read_list(file))
    elif Path(argument).name == RECORDS_FILE and _is_manifest(argument):
        yield from _manifest_or_folder(str(Path(argument).parent), listing)
    elif suffix in MANIFEST_SUFFIXES:
        for source in read_manifest_file(Path(argument)):
            beside = _beside(source.path, argument)
            yield Source(beside, source.start_seconds, source.end_seconds)
    else:
        yield Source(argument)


def _is_nowhere(argument: str) -> bool:
    """Neither there, nor a pattern, nor named like a film that might have been there."""
    if argument == "-" or glob.has_magic(argument) or Path(argument).exists():
        return False
    return Path(argument).suffix.lower() not in MEDIA_SUFFIXES


def _matching(pattern: str, listing: Listing) -> Iterator[Source]:
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - may be absolute
    if not matches:
        listing.problems.append(f"{pattern}: the pattern matches nothing")
    for match in matches:
        if Path(match).is_dir():
            yield from _folder(match, listing)
        elif _is_media(match, listing):
            yield Source(match)


def _manifest_or_folder(folder: str, listing: Listing) -> Iterator[Source]:
    """What `videopipe check` and the stage `decode` leave names its videos; else, what is found."""
    if not _is_manifest(str(Path(folder) / RECORDS_FILE)):
        yield from _folder(folder, listing)
        return
    for record in read_manifest(Path(folder)).records:
        yield Source(record.path, record.start_seconds, record.end_seconds)


def _is_manifest(records: str) -> bool:
    return Path(records).is_file() and (Path(records).parent / DATASET_FILE).is_file()


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise DataError(
            f"{path}: the list of videos cannot be read ({error.strerror}); give a readable "
            "file with one path per line"
        ) from None


def _beside(path: str, list_file: str) -> str:
    """A relative path means: from here, or else from the folder of the list."""
    if Path(path).is_absolute() or Path(path).exists():
        return path
    beside = Path(list_file).parent / path
    return str(beside) if beside.exists() else path


def _folder(folder: str, listing: Listing) -> Iterator[Source]:
    """Videos at any depth. Links to folders are followed, each folder once, so loops end."""
    found: list[str] = []
    visited: set[tuple[int, int]] = set()
    waiting, links = [folder], list[str]()
    while waiting or links:
        # Links come after the real folders: a file reached both ways keeps its real name.
        current = waiting.pop() if waiting else links.pop()
        try:
            status = Path(current).stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(current) as opened:
                entries = sorted(opened, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            listing.problems.append(f"{current}: folder cannot be read ({error.strerror})")
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(".parts"):
                continue
            if _is_folder(entry):
                (links if entry.is_symlink() else waiting).append(entry.path)
            elif _is_media(entry.path, listing):
                found.append(entry.path)
    yield from (Source(path) for path in sorted(found))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself; its row will say so
        return False


def _is_media(path: str, listing: Listing) -> bool:
    suffix = Path(path).suffix.lower()
    if suffix in MEDIA_SUFFIXES:
        return True
    listing.skipped[suffix or "(no suffix)"] += 1
    return False


def _nothing_found(given: Sequence[str | Source], listing: Listing) -> str:
    names = ", ".join(str(entry) for entry in given[:3]) + (", …" if len(given) > 3 else "")
    words = [f"no videos found in {names or 'an empty list of paths'}"]
    if listing.skipped:
        kinds = ", ".join(f"{count} × {suffix}" for suffix, count in listing.skipped.most_common(5))
        words.append(f"files passed over because of their names: {kinds}")
    words += listing.problems[:5]
    words.append("expected video files (.mp4, .avi, .mkv, .webm, …), folders of them, a pattern,")
    words.append("a list (.txt), a manifest (.csv, .jsonl), or - for paths on standard input")
    return "\n  ".join(words)


def source_id(source: Source) -> str:
    """Sixteen hex digits for path and range: what a row belongs to, in every run."""
    words = f"{source.path}\0{source.start_seconds}\0{source.end_seconds}"
    return hashlib.blake2b(os.fsencode(words), digest_size=8).hexdigest()
