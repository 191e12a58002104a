"""Fingerprints: short names for everything that a result depends on.

A fingerprint covers the kind of stage and its version, the config without `runtime` fields, the
fingerprints of the inputs, and the identity of outside data: names, sizes and times of the files
below a path, and of the videos that a list names. The path itself is left out: data may move.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrained_2d.folder_walk import walk_folders
from videopipe.errors import VideopipeError

FINGERPRINT_DIGITS = 12
OFFICIAL_SPLITS = (1, 2, 3)


def fingerprint(identity: Any) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of an identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]


def identify(value: Any) -> Any:
    """A config as JSON, without `runtime` fields, with every path replaced by its digest."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _identify_field(field, getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.metadata.get("runtime") and not _is_new_and_unused(field, value)
        }
    if isinstance(value, Path):
        return f"files:{digest_of_files(value)}"
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a default may be written 1 where a YAML gives 1.0
    return _inside(value, identify)


def _is_new_and_unused(field: dataclasses.Field[Any], config: Any) -> bool:
    """Whether a field that was added later has its default: results without it stay valid."""
    return bool(field.metadata.get("added")) and getattr(config, field.name) == field.default


def as_json(value: Any) -> Any:
    """A config as JSON, every field, paths as text."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Path):
        return str(value)
    return _inside(value, as_json)


@functools.cache
def digest_of_files(path: Path) -> str:
    """Names, sizes and times of the files at or below a path; read once per process."""
    digest = hashlib.sha256()
    for relative, file in _files_below(path):
        status = file.stat()
        digest.update(os.fsencode(f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\n"))
    return digest.hexdigest()[:FINGERPRINT_DIGITS]


@functools.cache
def digest_of_listed_videos(path: Path) -> str:
    """Sizes and times of the videos that lists at `path` name; those below a folder are left out.

    Empty when there are none.
    """
    from videopipe.dataset.layouts.lists import find_lists

    videos: dict[Path, None] = {}
    for split in OFFICIAL_SPLITS if path.is_dir() else OFFICIAL_SPLITS[:1]:
        try:
            listing = find_lists(path, split)
        except (VideopipeError, ValueError, OSError):  # no such list; the stage explains it
            continue
        items = () if listing is None else listing.items
        videos |= {i.path: None for i in items if not i.path.is_relative_to(path)}
    digest = hashlib.sha256()
    for number, video in enumerate(videos):
        try:
            status = video.stat()
        except (OSError, ValueError):
            continue
        digest.update(f"{number}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:FINGERPRINT_DIGITS] if videos else ""


def _identify_field(field: dataclasses.Field[Any], value: Any) -> Any:
    identity = identify(value)
    if field.metadata.get("names_videos") and isinstance(value, Path):
        listed = digest_of_listed_videos(value)
        return f"{identity} videos:{listed}" if listed else identity
    return identity


def _files_below(path: Path) -> list[tuple[str, Path]]:
    if not path.is_dir():
        return [("", path)] if path.exists() else []
    found = []
    for folder, _, names in walk_folders(path):
        for name in names:
            file = folder / name
            if file.exists():  # not for a dangling link
                found.append((file.relative_to(path).as_posix(), file))
    return sorted(found)


def _inside(value: Any, convert: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): convert(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert(inner) for inner in value]
    return value
