"""Read class names from a list, a text file or a JSON file."""

import json
from pathlib import Path
from typing import Any

from pretrained_2d.errors import CheckpointError


def read_labels(given: str) -> tuple[str, ...]:
    """`a,b,c`, or a file: one name on each line, or JSON (a list, or numbers to names)."""
    path = Path(given)
    if path.is_file():
        text = path.read_text(encoding="utf-8-sig")
        lines = [line.strip() for line in text.strip().splitlines()]
        names = _from_json(path, text) if path.suffix == ".json" else lines
    elif "," in given:
        names = [name.strip() for name in given.split(",")]
    else:
        raise CheckpointError(
            f"labels: {given!r} is neither a file nor a list such as walk,run,jump"
        )
    for name in names:
        if not name or names.count(name) > 1:
            what = f"{name!r} occurs twice" if name else "one name is empty"
            raise CheckpointError(f"labels of {given}: {what}; every class needs a name of its own")
    return tuple(names)


def _from_json(path: Path, text: str) -> list[str]:
    try:
        content = json.loads(text)
        if isinstance(content, list):
            return [_name(value) for value in content]
        order = sorted(content, key=int)
        if [int(key) for key in order] != list(range(len(order))):
            raise ValueError("numbers from 0 without a gap are expected")
        return [_name(content[key]) for key in order]
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: expected a JSON list of names, or numbers to names ({error})"
        ) from error


def _name(value: Any) -> str:
    """A name, or the last of several for one class, as in [wordnet id, name]."""
    return str(value[-1] if isinstance(value, list) else value)
