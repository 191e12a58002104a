"""Find videos: files, folders, patterns, lists, shards, URLs, manifests, paths on standard input.

Every path that a user names becomes a video. The row of a missing file has the status `missing`.
Folders that cannot be read are recorded problems, and files that are skipped are counted.
"""

import glob
import os
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event, Thread

from pretrained_2d.folder_walk import walk_folders
from videopipe.dataset.layouts.listing import MEDIA_SUFFIXES
from videopipe.dataset.layouts.lists import VideoFinder
from videopipe.dataset.lists.arrow_lists import holds_bytes
from videopipe.dataset.lists.video_lists import (
    LIST_SUFFIXES,
    ListEntry,
    path_of_text,
    read_list,
    read_paths,
)
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.dataset.manifest import DATASET_FILE, RECORDS_FILE, read_manifest
from videopipe.errors import DataError
from videopipe.prediction.long_list import DiskQueue, IdSet
from videopipe.prediction.remote_listing import expand_shard, expand_url, remote_video
from videopipe.video.frame_folder import frame_names, is_frame_folder
from videopipe.video.sources.addresses import (
    ARROW_SUFFIXES,
    COMPRESSED_TAR,
    TAR_SUFFIX,
    is_remote,
    split_member,
)
from videopipe.video.sources.tar_shards import DECOMPRESS

VIDEOS_BEFORE_PREDICTION = 1000  # found before the model is loaded
SHORT_LIST_SECONDS = 1.0
VideoArgument = str | os.PathLike[str] | VideoRange


class VideoListing:
    """The videos that `arguments` name, in an order that depends on names only.

    Iterating reads folders and lists as it goes, and gives each video once. `DataError` is raised
    when there is none at all, which nearly always means a mistyped path.
    """

    def __init__(self, arguments: Iterable[VideoArgument], frame_rate: float | None = None) -> None:
        self.frame_rate = frame_rate  # of folders of frames; None: they are not videos
        self.frame_folders = 0  # that were skipped
        self.arguments = [
            entry if isinstance(entry, VideoRange) else os.fspath(entry) for entry in arguments
        ]
        self.problems: list[str] = []  # folders that cannot be read, patterns that match nothing
        self.skipped: Counter[str] = Counter()  # suffix -> files that are not videos

    def accepts(self, path: str) -> bool:
        """Whether the name is that of a video; others are counted."""
        suffix = Path(path).suffix.lower()
        if suffix in MEDIA_SUFFIXES:
            return True
        if compressed := COMPRESSED_TAR.search(path):
            suffix = compressed[0].lower()
            if not self.skipped[suffix]:
                self.problems.append(f"{path}: {DECOMPRESS}")
        self.skipped[suffix or "(no suffix)"] += 1
        return False

    def __iter__(self) -> Iterator[VideoRange]:
        self.problems.clear()
        self.frame_folders = 0
        self.skipped.clear()
        if all(isinstance(entry, str) and _is_nowhere(entry) for entry in self.arguments):
            self.problems += [f"{entry}: no such file or folder" for entry in self.arguments]
            raise DataError(_nothing_found(self))
        seen = IdSet()
        for argument in self.arguments:
            for video in _expand(argument, self):
                if seen.add(int(video.id, 16)):
                    yield video
        if not seen:
            raise DataError(_nothing_found(self))


class BackgroundListing:
    """Reads a listing in a thread, so that prediction starts before the end of a long list.

    The thread finds a few videos and waits: loading the model and the first video come before the
    rest of the list (`read_on`). Iterating gives the videos as they are found; an error of the
    listing is raised then. Videos that wait are kept in a file in `folder`.
    """

    def __init__(self, listing: VideoListing, folder: Path, limit: int | None = None) -> None:
        self.order = array("Q")  # the ids of the videos found so far
        self.complete = False
        self._paused, self._go_on = Event(), Event()
        # A path is queued in place of a whole video: less to write and to read.
        self._found = DiskQueue(folder)
        Thread(target=self._read, args=(listing, limit), daemon=True, name="listing").start()
        self._first = self._next()  # raises when there is no video
        self._paused.wait(SHORT_LIST_SECONDS)  # a short list is complete by then

    def read_on(self) -> None:
        """Let the thread read the rest of the list."""
        self._go_on.set()

    def _read(self, listing: VideoListing, limit: int | None) -> None:
        try:
            for number, video in enumerate(islice(listing, limit)):
                if number == VIDEOS_BEFORE_PREDICTION:
                    self._paused.set()
                    self._go_on.wait()
                self.order.append(int(video.id, 16))
                whole = VideoRange(video.path) == video
                self._found.put(video.path if whole else video)
            self.complete = True
            self._paused.set()
            self._found.put_last(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the videos are drawn
            self._found.put_last(error)

    def _next(self) -> VideoRange | None:
        if self._found.empty() and len(self.order) >= VIDEOS_BEFORE_PREDICTION:
            self.read_on()
        video = self._found.get()
        if isinstance(video, BaseException):
            raise video
        return VideoRange(video) if isinstance(video, str) else video

    def __iter__(self) -> Iterator[VideoRange]:
        video = self._first
        while video is not None:
            yield video
            video = self._next()


def _expand(argument: str | VideoRange, listing: VideoListing) -> Iterator[VideoRange]:
    if isinstance(argument, VideoRange):
        yield _with_rate(argument, argument.frame_rate)
    elif argument == "-":
        entries = read_paths(sys.stdin.buffer)
        yield from (VideoRange(entry.path) for entry in entries)
    elif is_remote(argument):
        yield from expand_url(argument, listing)
    elif COMPRESSED_TAR.search(argument) and Path(argument).is_file():
        raise DataError(f"{argument}: {DECOMPRESS}")
    elif Path(argument).is_file() and Path(argument).suffix.lower() == TAR_SUFFIX:
        yield from expand_shard(argument, listing)
    elif Path(argument).is_dir():
        if is_frame_folder(Path(argument)):
            yield from _frame_folder(argument, listing)
        else:
            yield from _manifest_or_folder(argument, listing)
    elif not Path(argument).exists() and glob.has_magic(argument):
        yield from _matching(argument, listing)
    elif Path(argument).name == RECORDS_FILE and _is_manifest(argument):
        yield from _manifest_or_folder(str(Path(argument).parent), listing)
    elif Path(argument).suffix.lower() in LIST_SUFFIXES:
        yield from _of_list(argument, listing)
    else:
        yield VideoRange(argument)


def _of_list(file: str, listing: VideoListing) -> Iterator[VideoRange]:
    finder, rate = VideoFinder(Path(file).parent), listing.frame_rate
    entries = read_list(Path(file), as_bytes=True)[1]
    yield from (_listed(entry, finder, rate) for entry in entries)


def _listed(entry: ListEntry, finder: VideoFinder, frame_rate: float | None) -> VideoRange:
    """The video of an entry. A relative path is relative to this folder, or else to the list's."""
    return _with_rate(_found(entry, finder), entry.frame_rate or frame_rate)


def _with_rate(video: VideoRange, rate: float | None) -> VideoRange:
    """With the frame rate, if it is a folder of frames."""
    if rate is None or Path(video.path).suffix.lower() in MEDIA_SUFFIXES:
        return video
    if is_remote(video.path):
        return remote_video(video.path, video.start_seconds, video.end_seconds, rate)
    return replace(video, frame_rate=rate) if Path(video.path).is_dir() else video


def _found(entry: ListEntry, finder: VideoFinder) -> VideoRange:
    if entry.youtube_id:
        path, trimmed = finder.kinetics(entry.youtube_id, entry.start_seconds, entry.end_seconds)
        return VideoRange(str(path)) if trimmed else _range(str(path), entry)
    if split_member(entry.path) is not None:
        return _range(entry.path, entry)
    if entry.path.startswith("/") or is_remote(entry.path):
        return _range(path_of_text(entry.path), entry)
    if os.path.exists(entry.path):  # noqa: PTH110 - a Path for each line of a list costs more
        return _range(entry.path, entry)
    found = finder.by_path(entry.path)
    return _range(str(found) if found.exists() else path_of_text(entry.path), entry)


def _range(path: str, entry: ListEntry) -> VideoRange:
    return VideoRange(path, entry.start_seconds, entry.end_seconds)


def _is_nowhere(argument: str) -> bool:
    """Whether there is no such file, no such pattern, and the name is not that of a video."""
    if argument == "-" or glob.has_magic(argument) or Path(argument).exists():
        return False
    if is_remote(argument) or split_member(argument) is not None:
        return False
    return Path(argument).suffix.lower() not in MEDIA_SUFFIXES


def _matching(pattern: str, listing: VideoListing) -> Iterator[VideoRange]:
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - may be absolute
    if not matches:
        listing.problems.append(f"{pattern}: the pattern matches nothing")
    for match in matches:
        if Path(match).is_dir():
            inside = _frame_folder if is_frame_folder(Path(match)) else _folder
            yield from inside(match, listing)
        elif Path(match).suffix.lower() == TAR_SUFFIX:
            yield from expand_shard(match, listing)
        elif Path(match).suffix.lower() in ARROW_SUFFIXES and holds_bytes(match):
            yield from _of_list(match, listing)
        elif listing.accepts(match):
            yield VideoRange(match)


def _manifest_or_folder(folder: str, listing: VideoListing) -> Iterator[VideoRange]:
    """The videos of the manifest that `check` or `decode` wrote here, else the files below."""
    if not _is_manifest(str(Path(folder) / RECORDS_FILE)):
        yield from _folder(folder, listing)
        return
    for record in read_manifest(Path(folder)).records:
        start, end = record.start_seconds, record.end_seconds
        yield VideoRange(record.path, start, end, record.given_rate)


def _is_manifest(records: str) -> bool:
    return Path(records).is_file() and (Path(records).parent / DATASET_FILE).is_file()


def _folder(folder: str, listing: VideoListing) -> Iterator[VideoRange]:
    """Videos at any depth, sorted by path. Links to folders are followed; see `walk_folders`."""
    found: list[tuple[str, float | None]] = []

    def note(error: OSError) -> None:
        listing.problems.append(f"{error.filename}: folder cannot be read ({error.strerror})")

    for parent, folders, names in walk_folders(Path(folder), on_error=note):
        folders[:] = (name for name in folders if not _is_hidden(name))
        paths = (str(parent / name) for name in names if not _is_hidden(name))
        videos = [(path, None) for path in paths if listing.accepts(path)]
        found += videos
        if not videos and frame_names(names):
            folders.clear()
            found += ((video.path, video.frame_rate) for video in _frame_folder(parent, listing))
    yield from (VideoRange(path, frame_rate=rate) for path, rate in sorted(found))


def _frame_folder(folder: str | Path, listing: VideoListing) -> Iterator[VideoRange]:
    """The folder as a video, when the rate of its frames is known."""
    if listing.frame_rate is None:
        listing.frame_folders += 1
    else:
        yield VideoRange(str(folder), frame_rate=listing.frame_rate)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith(".parts")


def _nothing_found(listing: VideoListing) -> str:
    given = listing.arguments
    names = ", ".join(str(entry) for entry in given[:3]) + (", …" if len(given) > 3 else "")
    words = [f"no videos found in {names or 'an empty list of paths'}"]
    if listing.skipped:
        kinds = ", ".join(f"{count} × {suffix}" for suffix, count in listing.skipped.most_common(5))
        words.append(f"files skipped because of their names: {kinds}")
    if listing.frame_folders:
        words.append(
            f"{listing.frame_folders} folders of numbered images; to read each as one video, give "
            "--frame-rate"
        )
    words += listing.problems[:5]
    words.append("expected video files (.mp4, .avi, .mkv, .webm, …), folders of them, a pattern,")
    words.append(
        "a tar shard, URLs (s3://, https://, …), a list (.txt, .csv, .tsv, .jsonl, .parquet),"
    )
    words.append(
        "a table with videos as bytes (.parquet, .arrow), or - for paths on standard input"
    )
    return "\n  ".join(words)
