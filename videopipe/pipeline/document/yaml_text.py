"""YAML text to nodes with their line and column, and plain values back to YAML.

Only this file uses the YAML library. Values get their types later (`convert.py`), from the field
they are for: `1e-4` is a number where one is expected, `no` is never a string. Anchors, aliases
and merge keys are resolved here; a value keeps the position where it is written.
"""

from pathlib import Path
from typing import Any

import yaml

from videopipe.pipeline.document.nodes import ListNode, MapNode, Node, Scalar
from videopipe.pipeline.document.scalars import read_str

TAG = "tag:yaml.org,2002:"
MAX_VALUES = 20_000  # of a document, with its aliases written out
UNUSUAL_BREAKS = "\x85\u2028\u2029"  # line breaks of YAML 1.1 that are rarely meant as such
# The tags that YAML gives to untagged values.
PLAIN = {"str", "int", "float", "bool", "null", "seq", "map", "timestamp", "merge", "value"}


def read_yaml(path: Path, problems: list[str]) -> Node | None:
    """The nodes of a file. What is wrong with the text itself is added to `problems`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problems.append(
            f"{path}: not a text file in UTF-8 (byte {error.start}); is it a YAML file?"
        )
        return None
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
        return None
    return parse_yaml(text, str(path), problems)


def parse_yaml(
    text: str, name: str, problems: list[str], *, where: str | None = None
) -> Node | None:
    """As `read_yaml`, of a text. `where` replaces every position in it (for `--set`)."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        nodes = None if root is None else _NodeReader(name, where, problems).read(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = where or (_position(name, mark) if mark else name)
        problems.append(f"{at}: not valid YAML: {error.problem or error.context}{_hint(error)}")
        return None
    except (yaml.YAMLError, RecursionError) as error:
        words = str(error).splitlines()[0] if str(error) else "nested too deeply"
        problems.append(f"{where or name}: not valid YAML: {words}")
        return None
    if root is None:
        problems.append(f"{where or name}: empty; expected keys 'name' and 'stages'")
        return None
    return nodes


def write_yaml(value: Any) -> str:
    """Plain values (dict, list, str, number, bool, None) as YAML that reads back the same."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Lists of plain values on one line, as people write them."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_list(dumper: _Dumper, value: list[Any]) -> yaml.Node:
    flat = not any(isinstance(item, list | dict) for item in value)
    return dumper.represent_sequence(f"{TAG}seq", value, flow_style=flat)


def _represent_str(dumper: _Dumper, value: str) -> yaml.Node:
    mistakable = read_str(Scalar("", value)) is None  # "1e-4", "no": quoted, or read back wrongly
    style = "'" if mistakable else None
    if any(character in value for character in UNUSUAL_BREAKS):
        style = '"'  # written as escapes; in other styles they are folded into spaces
    return dumper.represent_scalar(f"{TAG}str", value, style=style)


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_str)


class _NodeReader:
    """Nodes of the YAML library to ours. An alias becomes the value that it refers to."""

    def __init__(self, name: str, where: str | None, problems: list[str]) -> None:
        self.name, self.where, self.problems = name, where, problems
        self._done: dict[int, tuple[Node, int]] = {}  # by id: a node and its size with aliases
        self._open: set[int] = set()  # nodes being read
        self._endless = False

    def read(self, root: yaml.Node) -> Node | None:
        """The whole document; None when it would be endless or too large."""
        node, size = self._convert(root)
        if self._endless:
            return None
        if size > MAX_VALUES:
            self.problems.append(
                f"{self.where or self.name}: {size} values once the aliases are written out, more "
                f"than {MAX_VALUES}; an alias of a list of aliases multiplies them"
            )
            return None
        return node

    def _convert(self, node: yaml.Node) -> tuple[Node, int]:
        if id(node) in self._done:
            return self._done[id(node)]
        at = self.where or _position(self.name, node.start_mark)
        if id(node) in self._open:
            self.problems.append(f"{at}: an alias inside the value that it refers to")
            self._endless = True
            return Scalar(at, ""), 1
        if node.tag.removeprefix(TAG) not in PLAIN:
            self.problems.append(f"{at}: tag '{node.tag}' is not supported; write a plain value")
        self._open.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            found: tuple[Node, int] = (Scalar(at, node.value, quoted=node.style is not None), 1)
        elif isinstance(node, yaml.SequenceNode):
            items = [self._convert(item) for item in node.value]
            found = ListNode(at, tuple(item for item, _ in items)), 1 + sum(n for _, n in items)
        else:
            found = self._mapping(node, at)
        self._open.remove(id(node))
        self._done[id(node)] = found
        return found

    def _mapping(self, node: yaml.Node, at: str) -> tuple[MapNode, int]:
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: dict[str, tuple[Scalar, Node]] = {}
        total = 1
        for key_node, value_node in node.value:
            key_at = self.where or _position(self.name, key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(f"{key_at}: a key must be plain text, got a list or a mapping")
                continue
            value, size = self._convert(value_node)
            total += size
            if key_node.tag == f"{TAG}merge":
                merged = self._merged(value, key_at) | merged
                continue
            key = Scalar(key_at, key_node.value, quoted=key_node.style is not None)
            if key.text in own:
                first = own[key.text][0].where
                self.problems.append(f"{key_at}: duplicate key '{key.text}' (first at {first})")
            else:
                own[key.text] = (key, value)
        return MapNode(at, merged | own), total

    def _merged(self, value: Node, at: str) -> dict[str, tuple[Scalar, Node]]:
        """The entries of the mappings after `<<`; of two with the same key the first counts."""
        entries: dict[str, tuple[Scalar, Node]] = {}
        for mapping in value.items if isinstance(value, ListNode) else (value,):
            if isinstance(mapping, MapNode):
                entries = {**mapping.entries, **entries}
            else:
                self.problems.append(
                    f"{at}: '<<' takes a mapping (<<: *name) or a list of them, got {mapping}"
                )
        return entries


def _position(name: str, mark: Any) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}"


def _hint(error: yaml.MarkedYAMLError) -> str:
    words = str(error.problem)
    if "'\\t'" in words:
        return " (indent with spaces, not with tabs)"
    if "mapping values are not allowed" in words:
        return " (a space is missing after a ':', or text with ': ' in it needs quotes)"
    if "expected a single document" in str(error.context):
        return " (one pipeline per file)"
    return ""
