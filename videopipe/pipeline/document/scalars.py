"""Reading one written value as each plain type, and describing types in error messages."""

import re
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union

from videopipe.pipeline.document.nodes import ListNode, MapNode, Node, Scalar, is_null

INTEGER = re.compile(r"[-+]?[0-9][0-9_]{0,999}")  # Python refuses to read more than 4300 digits
FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf")
BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Booleans in YAML 1.1 and strings in YAML 1.2: ambiguous without quotes.
AMBIGUOUS = {"yes", "no", "on", "off"}


def read_bool(node: Scalar) -> bool | None:
    """`true` or `false`; not `yes`, not `1`."""
    return None if node.quoted else BOOLEANS.get(node.text)


def read_int(node: Scalar) -> int | None:
    """`3`, `-3`, `1_000`."""
    plain_integer = not node.quoted and INTEGER.fullmatch(node.text)
    return int(node.text) if plain_integer else None


def read_float(node: Scalar) -> float | None:
    """`3`, `0.5`, `1e-4`, `.inf`."""
    if node.quoted or not FLOAT.fullmatch(node.text):
        return None
    return float(node.text.replace(".inf", "inf"))


def read_str(node: Scalar) -> str | None:
    """Any quoted text; unquoted text unless it is a number, boolean or null."""
    mistakable = (
        is_null(node)
        or node.text in BOOLEANS
        or node.text.lower() in AMBIGUOUS
        or FLOAT.fullmatch(node.text)
    )
    return None if mistakable and not node.quoted else node.text


READERS: dict[type, Callable[[Scalar], Any]] = {
    bool: read_bool,
    int: read_int,
    float: read_float,
    str: read_str,
    Path: read_str,
}

NAMES: dict[type, tuple[str, str]] = {  # one, many
    bool: ("true or false", "booleans"),
    int: ("an integer", "integers"),
    float: ("a float", "floats"),
    str: ("a string", "strings"),
    Path: ("a path", "paths"),
}


def describe(hint: Any, unit: str | None = None, *, many: bool = False) -> str:
    """A type as words: "a float (seconds)", "one of a, b", "a list of 2 integers"."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    suffix = f" ({unit})" if unit else ""
    if origin in (Union, types.UnionType):
        words = [
            describe(option, many=many) for option in arguments if option is not types.NoneType
        ]
        return " or ".join(words) + suffix + (" or null" if types.NoneType in arguments else "")
    if origin is Literal:
        return f"one of {', '.join(shown(choice) for choice in arguments)}"
    if origin in (tuple, list):
        repeated = origin is list or arguments[-1] is Ellipsis
        count = "" if repeated else f"{len(arguments)} "
        return (
            f"{'lists' if many else 'a list'} of {count}{describe(arguments[0], many=True)}"
            + suffix
        )
    if origin is not None and len(arguments) == 2:  # dict[str, X]
        mapping = "mappings" if many else "a mapping"
        return f"{mapping} of names to {describe(arguments[1], unit, many=True)}"
    if hint in NAMES:
        return NAMES[hint][many] + suffix
    if hint is Any:
        return "values" if many else "a value"
    return "mappings" if many else "a mapping"


def shown(value: Any) -> str:
    """A plain value as it is written in YAML: None is `null`, 20.0 is `20`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def means(node: Scalar, choice: Any) -> bool:
    """Whether a written value is this choice of a Literal."""
    if choice is None:
        return is_null(node)
    if isinstance(choice, str):
        return node.text == choice
    return bool(READERS[type(choice)](node) == choice)


def plain(node: Node) -> Any:
    """A value without a declared type, as in JSON."""
    if isinstance(node, MapNode):
        return {key: plain(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    if is_null(node):
        return None
    for reader in (read_bool, read_int, read_float):
        if (value := reader(node)) is not None:
            return value
    return node.text
