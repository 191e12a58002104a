"""A document without types: scalars, lists and mappings, each with its position."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pretrained_2d.errors import did_you_mean


@dataclass(frozen=True)
class Scalar:
    """One value as it was written."""

    where: str  # "file.yaml:3:7", or the `--set` it came from
    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return f"'{self.text}'"


@dataclass(frozen=True)
class ListNode:
    """A list of values."""

    where: str
    items: tuple["Node", ...]

    def __str__(self) -> str:
        return "a list" if self.items else "an empty list"


@dataclass(frozen=True)
class MapNode:
    """Keys with their values, in the order written; each key is unique."""

    where: str
    entries: Mapping[str, tuple[Scalar, "Node"]]

    def __str__(self) -> str:
        return "a mapping" if self.entries else "an empty mapping"

    def get(self, key: str) -> "Node | None":
        """The value under a key."""
        return self.entries[key][1] if key in self.entries else None


Node = Scalar | ListNode | MapNode
STAGE_KEYS = ("use", "inputs", "config", "matrix")  # of a stage of a pipeline


def is_null(node: Node) -> bool:
    """Whether a node has no value: `null`, `~`, or nothing after the colon."""
    return (
        isinstance(node, Scalar)
        and not node.quoted
        and node.text in ("", "~", "null", "Null", "NULL")
    )


def with_value(node: Node | None, path: tuple[str, ...], key: Scalar, value: Node) -> Node:
    """A copy of `node` with `value` at `path` (keys of nested mappings)."""
    if not path:
        return value
    entries = dict(node.entries) if isinstance(node, MapNode) else {}
    old_key, old_value = entries.get(path[0], (None, None))
    new_key = key if len(path) == 1 or old_key is None else old_key
    inner = with_value(old_value, path[1:], key, value)
    entries[path[0]] = (replace(new_key, text=path[0]), inner)
    return MapNode(node.where if isinstance(node, MapNode) else key.where, entries)


def without(node: MapNode, path: tuple[str, ...]) -> MapNode:
    """A copy of `node` without the value at `path`, if there is one."""
    entries = dict(node.entries)
    if path[0] in entries:
        key, inner = entries.pop(path[0])
        if len(path) > 1:
            rest = without(inner, path[1:]) if isinstance(inner, MapNode) else inner
            entries[path[0]] = (key, rest)
            entries = {name: entries[name] for name in node.entries}  # in the order written
    return MapNode(node.where, entries)


def with_defaults(node: Node, defaults: Node | None) -> Node:
    """`node` with what only `defaults` has; mappings in both are filled in key by key."""
    if not isinstance(node, MapNode) or not isinstance(defaults, MapNode):
        return node
    entries = dict(defaults.entries)
    for name, (key, value) in node.entries.items():
        entries[name] = (key, with_defaults(value, defaults.get(name)))
    return MapNode(node.where, entries)


def nearest(word: str, choices: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or the choices when none is near, or nothing when there are none."""
    choices = list(choices)
    others = f" (there are: {', '.join(choices)})" if choices else ""
    return did_you_mean(word.lower(), choices, cutoff=0.6) or others
