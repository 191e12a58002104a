"""Nodes to typed values, as a dataclass declares them; anything else is an error.

Supported types: bool, int, float, str, Path, Literal, tuple, list, dict[str, X], Any, X | None,
other unions (the first that fits) and nested dataclasses.
"""

import dataclasses
import os
import re
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union

from videopipe.pipeline.document.nodes import ListNode, MapNode, Node, Scalar, is_null, nearest
from videopipe.pipeline.document.scalars import READERS, describe, means, plain, shown

VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


class UnusableError(Exception):
    """A value does not fit its type; the problem is in the list already."""


@dataclasses.dataclass
class Converter:
    """Turns nodes into typed values and collects all problems."""

    problems: list[str]
    check_paths: bool = True  # environment variables must be set, and paths must exist

    def convert(self, node: Node, hint: Any, name: str, unit: str | None = None) -> Any:
        """The value of `node` as type `hint`; else notes the problem and raises UnusableError."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (Union, types.UnionType):
            return self._union(node, hint, name, unit)
        if origin is Literal:
            return self._literal(node, arguments, name)
        if origin in (tuple, list):
            return self._sequence(node, hint, name, unit)
        if origin is dict or getattr(origin, "__name__", "") == "Mapping":
            return self._dictionary(node, arguments[1], name, unit)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.dataclass(node, hint, name)
        if hint is Any:
            return plain(node)
        reader = READERS[hint]
        if isinstance(node, Scalar) and (value := reader(node)) is not None:
            return self._path(node, value, name) if hint is Path else value
        raise self._reject(node, hint, name, unit)

    def dataclass(self, node: Node, config: type, name: str) -> Any:
        """A frozen dataclass from a mapping; errors of its own checks get a position too."""
        if is_null(node):
            node = MapNode(node.where, {})
        if not isinstance(node, MapNode):
            self.problems.append(
                f"{node.where}: '{name}' must be a mapping of settings, got {node}"
            )
            raise UnusableError
        fields = {field.name: field for field in dataclasses.fields(config) if field.init}
        hints = typing.get_type_hints(config)
        before, values = len(self.problems), {}
        for key, (key_node, value_node) in node.entries.items():
            if key not in fields:
                self.problems.append(
                    f"{key_node.where}: unknown key '{key}' in {name}{nearest(key, fields)}"
                )
                continue
            try:
                unit = fields[key].metadata.get("unit")
                values[key] = self.convert(value_node, hints[key], f"{name}.{key}", unit)
            except UnusableError:
                continue
        for key, field in fields.items():
            if key not in node.entries and _is_required(field):
                expected = describe(hints[key], field.metadata.get("unit"))
                self.problems.append(
                    f"{node.where}: '{name}.{key}' is missing; expected {expected}"
                )
        if len(self.problems) > before:
            raise UnusableError
        try:
            return config(**values)
        except (ValueError, TypeError) as error:
            self.problems.append(f"{_blamed(node, str(error))}: '{name}': {error}")
            raise UnusableError from error

    def _union(self, node: Node, hint: Any, name: str, unit: str | None) -> Any:
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
        if is_null(node) and len(options) < len(typing.get_args(hint)):
            return None
        if len(options) == 1:
            reader = READERS.get(options[0])
            if reader and not (isinstance(node, Scalar) and reader(node) is not None):
                raise self._reject(node, hint, name, unit)  # its message offers null
            return self.convert(node, options[0], name, unit)
        for option in options:
            try:
                return Converter([], self.check_paths).convert(node, option, name, unit)
            except UnusableError:
                continue
        raise self._reject(node, hint, name, unit)

    def _literal(self, node: Node, choices: tuple[Any, ...], name: str) -> Any:
        for choice in choices:
            if isinstance(node, Scalar) and means(node, choice):
                return choice
        words = [shown(choice) for choice in choices]
        near = nearest(node.text, words) if isinstance(node, Scalar) else ""
        near = near if near.startswith(" (did") else ""
        self.problems.append(
            f"{node.where}: '{name}' must be one of {', '.join(words)}, got {node}{near}"
        )
        raise UnusableError

    def _sequence(self, node: Node, hint: Any, name: str, unit: str | None) -> Any:
        arguments = typing.get_args(hint)
        if not isinstance(node, ListNode):
            raise self._reject(node, hint, name, unit)
        repeated = typing.get_origin(hint) is list or arguments[-1] is Ellipsis
        if not repeated and len(node.items) != len(arguments):
            self.problems.append(
                f"{node.where}: '{name}' must have {len(arguments)} items, got {len(node.items)}"
            )
            raise UnusableError
        hints = [arguments[0]] * len(node.items) if repeated else arguments
        values = self._all(
            lambda item, hint, index: self.convert(item, hint, f"{name}[{index}]", unit),
            [
                (item, hint, index)
                for index, (item, hint) in enumerate(zip(node.items, hints, strict=True))
            ],
        )
        return values if typing.get_origin(hint) is list else tuple(values)

    def _dictionary(self, node: Node, hint: Any, name: str, unit: str | None) -> dict[str, Any]:
        if is_null(node):
            return {}
        if not isinstance(node, MapNode):
            expected = f"a mapping of names to {describe(hint, unit, many=True)}"
            self.problems.append(f"{node.where}: '{name}' must be {expected}, got {node}")
            raise UnusableError
        values = self._all(
            lambda key, value: self.convert(value, hint, f"{name}.{key}", unit),
            [(key, value) for key, (_, value) in node.entries.items()],
        )
        return dict(zip(node.entries, values, strict=True))

    def _all(self, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
        """The values of all calls; on problems, those of all calls."""
        values, failed = [], False
        for arguments in calls:
            try:
                values.append(function(*arguments))
            except UnusableError:
                failed = True
        if failed:
            raise UnusableError
        return values

    def _path(self, node: Scalar, text: str, name: str) -> Path:
        unset = [
            variable.strip("{}")
            for variable in VARIABLE.findall(text)
            if not os.environ.get(variable.strip("{}"))
        ]
        if unset and self.check_paths:
            self.problems.append(
                f"{node.where}: '{name}': environment variable {unset[0]} is not set;"
                f" set it (export {unset[0]}=…) or write the path out, got '{text}'"
            )
            raise UnusableError
        path = Path(os.path.expandvars(text)).expanduser().absolute()
        if self.check_paths and not path.exists():
            self.problems.append(f"{node.where}: '{name}': {path} does not exist")
            raise UnusableError
        return path

    def _reject(self, node: Node, hint: Any, name: str, unit: str | None) -> UnusableError:
        quote = ""
        if hint is str and isinstance(node, Scalar) and not is_null(node):
            quote = f'; if the text itself is meant, quote it: "{node.text}"'
        got = "nothing" if is_null(node) else node
        self.problems.append(
            f"{node.where}: '{name}' must be {describe(hint, unit)}, got {got}{quote}"
        )
        return UnusableError()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _blamed(node: MapNode, message: str) -> str:
    """The position of the first key named in a message; without one, of the mapping."""
    for word in re.findall(r"\w+", message):
        if word in node.entries:
            return node.entries[word][1].where
    return node.where
