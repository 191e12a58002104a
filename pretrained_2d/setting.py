"""Declaring a field of a configuration dataclass, and filling one from another object."""

from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

Config = TypeVar("Config")


def setting(
    default: Any = MISSING,
    help: str = "",
    *,
    unit: str | None = None,
    runtime: bool = False,
    limit: bool = False,
    names_videos: bool = False,
    added: bool = False,
    default_factory: Any = MISSING,
) -> Any:
    """A dataclass field with its help text: `lr: float = setting(1e-4, "peak rate")`.

    `unit` is shown in help and errors ("seconds", "pixels"). A `runtime` field changes speed and
    not the result (workers, device, log interval), so it is left out of fingerprints. A `limit`
    (timeout, memory) is a runtime field that decides which items fail: raising it retries them.
    An `added` field came after results were made without it: at its default it is left out of
    fingerprints, so that those results stay valid. `names_videos` marks a path that may be a list
    of videos, which are then part of fingerprints.
    """
    metadata = {
        "help": help,
        "unit": unit,
        "runtime": runtime or limit,
        "limit": limit,
        "names_videos": names_videos,
        "added": added,
    }
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(config: type[Config], source: object, **others: Any) -> Config:
    """A dataclass from the attributes of `source` that are named as its fields, and `others`."""
    names = {each.name for each in fields(config)} - others.keys()  # type: ignore[arg-type]
    found = {name: getattr(source, name) for name in names if hasattr(source, name)}
    return config(**found, **others)
