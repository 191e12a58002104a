"""What a result depends on, and the short name of exactly that.

A fingerprint covers the kind of stage and its version, the config without `runtime` fields, the
fingerprints of the inputs, and the identity of outside data: names, sizes and times of the files
below a path, and not the path itself, so that data may move.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopipe.folders import walk_folders

FINGERPRINT_DIGITS = 12


def fingerprint(identity: Any) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of an identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]


def identify(value: Any) -> Any:
    """A config as JSON, without `runtime` fields, with every path replaced by its digest."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: identify(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.metadata.get("runtime")
        }
    if isinstance(value, Path):
        return f"files:{digest_of_files(value)}"
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a default may be written 1 where a YAML gives 1.0
    return _inside(value, identify)


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
        digest.update(f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:FINGERPRINT_DIGITS]


def _files_below(path: Path) -> list[tuple[str, Path]]:
    if not path.is_dir():
        return [("", path)] if path.exists() else []
    found = []
    for folder, _, names in walk_folders(path):
        for name in names:
            file = folder / name
            if file.exists():  # a dangling link is nothing to depend on
                found.append((file.relative_to(path).as_posix(), file))
    return sorted(found)


def _inside(value: Any, convert: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): convert(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert(inner) for inner in value]
    return value
