"""YAML text to nodes that know their line and column, and plain values back to YAML.

The only file that knows YAML. What the values mean is decided later (`convert.py`), by the type of
the field they are for: `1e-4` is a number where a number is asked, `no` is never a string.
"""

from pathlib import Path
from typing import Any

import yaml

from videopipe.nodes import ListNode, MapNode, Node, Scalar
from videopipe.scalars import read_str

TAG = "tag:yaml.org,2002:"
# What YAML takes untagged values for; a value that was tagged otherwise would be an instruction.
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
    """As `read_yaml`, of a text. `where` stands for every position in it (one `--set`)."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                at = where or _position(name, event.start_mark)
                problems.append(f"{at}: alias '*{event.anchor}': write the value out instead")
                return None
        root = yaml.compose(text, Loader=yaml.SafeLoader)
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
    return _convert(root, name, where, problems)


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
    return dumper.represent_scalar(f"{TAG}str", value, style=style)


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_str)


def _convert(node: yaml.Node, name: str, where: str | None, problems: list[str]) -> Node:
    at = where or _position(name, node.start_mark)
    if node.tag.removeprefix(TAG) not in PLAIN:
        problems.append(f"{at}: tag '{node.tag}' is not supported; write a plain value")
    if isinstance(node, yaml.ScalarNode):
        return Scalar(at, node.value, quoted=node.style is not None)
    if isinstance(node, yaml.SequenceNode):
        return ListNode(at, tuple(_convert(item, name, where, problems) for item in node.value))
    entries: dict[str, tuple[Scalar, Node]] = {}
    for key_node, value_node in node.value:
        key_at = where or _position(name, key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(f"{key_at}: a key must be a word, got a list or a mapping")
            continue
        key = Scalar(key_at, key_node.value, quoted=key_node.style is not None)
        value = _convert(value_node, name, where, problems)
        if key.text in entries:
            first = entries[key.text][0].where
            problems.append(f"{key_at}: duplicate key '{key.text}' (first at {first})")
        else:
            entries[key.text] = (key, value)
    return MapNode(at, entries)


def _position(name: str, mark: Any) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}"


def _hint(error: yaml.MarkedYAMLError) -> str:
    words = str(error.problem)
    if "'\\t'" in words:
        return " (indent with blanks, not with tabs)"
    if "mapping values are not allowed" in words:
        return " (a blank is missing after a ':', or text with ': ' in it needs quotes)"
    if "expected a single document" in str(error.context):
        return " (one pipeline per file)"
    return ""
