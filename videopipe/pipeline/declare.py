"""The stages a file declares, with every connection and every setting checked."""

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Any

from videopipe.pipeline.document.convert import Converter, UnusableError
from videopipe.pipeline.document.nodes import (
    STAGE_KEYS,
    ListNode,
    MapNode,
    Node,
    Scalar,
    is_null,
    nearest,
    with_defaults,
    with_value,
)
from videopipe.pipeline.stage import Stage

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
TOP_KEYS = ("name", "defaults", "stages")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """One stage of a file: what it uses, what it takes, and a config per matrix combination."""

    use: str
    record: Stage[Any]
    inputs: Mapping[str, tuple[str, ...]]  # input -> names of earlier stages
    matrix: Mapping[str, tuple[Any, ...]]  # key -> values
    configs: tuple[tuple[Mapping[str, Any], Any], ...]  # (values of the matrix keys, config)


def declare_stages(
    root: MapNode, stages: Mapping[str, Stage[Any]], converter: Converter
) -> tuple[str, dict[str, Declaration]]:
    """The name of the pipeline and its stages. Problems gather in the converter."""
    problems = converter.problems
    _check_keys(root, TOP_KEYS, "the pipeline", problems)
    name = _read_name(root, problems)
    written = root.get("stages")
    if (
        written is None
        or is_null(written)
        or (isinstance(written, MapNode) and not written.entries)
    ):
        problems.append(
            f"{(written or root).where}: 'stages' is missing; a pipeline needs at least one"
        )
        return name, {}
    if not isinstance(written, MapNode):
        problems.append(
            f"{written.where}: 'stages' must be a mapping of names to stages, got {written}"
        )
        return name, {}
    defaults = _read_defaults(root.get("defaults"), stages, problems)
    declared: dict[str, Declaration] = {}
    kinds: dict[str, str | None] = {}  # `use` of the stages read so far; None: it is wrong
    for stage_name, (key, node) in written.entries.items():
        if not NAME.fullmatch(stage_name):
            problems.append(
                f"{key.where}: stage name '{stage_name}' may hold letters, digits, - and _ only"
            )
        reader = _StageReader(stage_name, key, stages, defaults, converter)
        declaration = reader.read(node, kinds, tuple(written.entries))
        kinds[stage_name] = reader.use
        if declaration is not None:
            declared[stage_name] = declaration
    for use in set(defaults) - set(kinds.values()):
        where = defaults[use].where
        problems.append(f"{where}: defaults of '{use}', but no stage has use: {use}")
    return name, declared


def _read_defaults(
    node: Node | None, stages: Mapping[str, Stage[Any]], problems: list[str]
) -> dict[str, MapNode]:
    """Settings by kind of stage, for all stages that have this `use`."""
    if node is None or is_null(node):
        return {}
    if not isinstance(node, MapNode):
        problems.append(
            f"{node.where}: 'defaults' must map kinds of stages to settings, got {node}"
        )
        return {}
    found = {}
    for use, (key, settings) in node.entries.items():
        if use not in stages:
            near = nearest(use, stages)
            problems.append(f"{key.where}: defaults of an unknown stage '{use}'{near}")
        elif isinstance(settings, MapNode):
            found[use] = settings
        elif not is_null(settings):
            problems.append(
                f"{settings.where}: 'defaults.{use}' must be a mapping of settings, got {settings}"
            )
    return found


@dataclasses.dataclass
class _StageReader:
    """Reads one entry of `stages`."""

    name: str
    key: Scalar
    stages: Mapping[str, Stage[Any]]
    defaults: Mapping[str, MapNode]
    converter: Converter
    use: str | None = None

    def note(self, where: str, message: str) -> None:
        self.converter.problems.append(f"{where}: {message}")

    def read(
        self, node: Node, earlier: Mapping[str, str | None], all_names: tuple[str, ...]
    ) -> Declaration | None:
        if not isinstance(node, MapNode):
            expected = "a mapping with 'use', 'inputs', 'config', 'matrix'"
            self.note(node.where, f"stage '{self.name}' must be {expected}, got {node}")
            return None
        _check_keys(node, STAGE_KEYS, f"stage '{self.name}'", self.converter.problems)
        self.use = self._read_use(node)
        if self.use is None:
            return None
        record = self.stages[self.use]
        inputs = self._read_inputs(node.get("inputs"), record, earlier, all_names)
        matrix = self._read_matrix(node.get("matrix"))
        configs = self._read_configs(node, record, matrix)
        return Declaration(self.use, record, inputs, _axes(matrix, configs), configs)

    def _read_use(self, node: MapNode) -> str | None:
        use = node.get("use")
        if use is None:
            known = ", ".join(self.stages)
            self.note(self.key.where, f"stage '{self.name}' has no 'use'; it is one of {known}")
            return None
        if not isinstance(use, Scalar) or use.text not in self.stages:
            near = nearest(use.text, self.stages) if isinstance(use, Scalar) else ""
            self.note(use.where, f"unknown stage {use}{near}; `videopipe stages` lists them")
            return None
        return use.text

    def _read_inputs(
        self,
        node: Node | None,
        record: Stage[Any],
        earlier: Mapping[str, str | None],
        all_names: tuple[str, ...],
    ) -> dict[str, tuple[str, ...]]:
        entries = node.entries if isinstance(node, MapNode) else {}
        if node is not None and not isinstance(node, MapNode) and not is_null(node):
            self.note(node.where, f"'{self.name}.inputs' must map inputs to stages, got {node}")
            return {}
        found = {}
        for key, (key_node, value) in entries.items():
            accepted = record.inputs.get(key)
            if accepted is None:
                takes = nearest(key, record.inputs) or f" ({self.use} takes none)"
                self.note(key_node.where, f"unknown input '{key}' of {self.name}{takes}")
                continue
            sources = value.items if isinstance(value, ListNode) else (value,)
            if isinstance(value, ListNode) and not (accepted.many and sources):
                wanted = "a list of at least one stage" if accepted.many else "one stage"
                self.note(value.where, f"input '{key}' of {self.name} takes {wanted}")
                continue
            names = [
                self._read_source(key, source, record, earlier, all_names) for source in sources
            ]
            found[key] = tuple(name for name in names if name is not None)
        for key, accepted in record.inputs.items():
            if accepted.required and key not in entries:
                kinds = " or ".join(accepted.kinds)
                self.note(
                    self.key.where,
                    f"stage '{self.name}' needs input '{key}': a stage that gives {kinds}",
                )
        return found

    def _read_source(
        self,
        key: str,
        node: Node,
        record: Stage[Any],
        earlier: Mapping[str, str | None],
        all_names: tuple[str, ...],
    ) -> str | None:
        what = f"input '{key}' of {self.name}"
        if not isinstance(node, Scalar):
            self.note(node.where, f"{what} must be the name of an earlier stage, got {node}")
            return None
        if node.text not in earlier:
            if node.text in all_names:
                order = "itself" if node.text == self.name else f"'{node.text}', a later stage"
                self.note(node.where, f"{what} is {order}; stages run in the order written")
            else:
                self.note(
                    node.where, f"{what}: no stage '{node.text}'{nearest(node.text, earlier)}"
                )
            return None
        use = earlier[node.text]
        if use is None:  # reported already for that stage
            return None
        kinds = record.inputs[key].kinds
        if self.stages[use].output not in kinds:
            gives = f"'{node.text}' ({use}) gives {self.stages[use].output}"
            self.note(node.where, f"{what} takes {' or '.join(kinds)}, but {gives}")
            return None
        return node.text

    def _read_matrix(self, node: Node | None) -> dict[str, tuple[Scalar, tuple[Node, ...]]]:
        if node is None or is_null(node):
            return {}
        if not isinstance(node, MapNode):
            self.note(node.where, f"'{self.name}.matrix' must map keys to lists, got {node}")
            return {}
        matrix = {}
        for key, (key_node, values) in node.entries.items():
            if not isinstance(values, ListNode) or not values.items:
                self.note(
                    values.where,
                    f"'{self.name}.matrix.{key}' must be a list of values, got {values}",
                )
                continue
            matrix[key] = (key_node, values.items)
        return matrix

    def _read_configs(
        self,
        node: MapNode,
        record: Stage[Any],
        matrix: Mapping[str, tuple[Scalar, tuple[Node, ...]]],
    ) -> tuple[tuple[Mapping[str, Any], Any], ...]:
        written = node.get("config")
        if written is None or is_null(written):
            written = MapNode(self.key.where, {})
        for key in matrix:
            if (value := _lookup(written, key.split("."))) is not None:
                other = f"to run through other values, set {self.name}.matrix.{key}=[…]"
                self.note(value.where, f"'{self.name}.{key}' is varied by the matrix; {other}")
        written = with_defaults(written, self.defaults.get(self.use or ""))
        configs: list[tuple[Mapping[str, Any], Any]] = []
        for values in itertools.product(*(nodes for _, nodes in matrix.values())):
            config_node: Node = written
            for (key, (key_node, _)), value in zip(matrix.items(), values, strict=True):
                config_node = with_value(config_node, tuple(key.split(".")), key_node, value)
            try:
                config = self.converter.dataclass(config_node, record.config, self.name)
            except UnusableError:
                continue
            variant = {key: _attribute(config, key) for key in matrix}
            if any(variant == other for other, _ in configs):
                self.note(self.key.where, f"the matrix of '{self.name}' repeats {variant}")
            configs.append((variant, config))
        return tuple(configs)


def _axes(
    matrix: Mapping[str, Any], configs: tuple[tuple[Mapping[str, Any], Any], ...]
) -> dict[str, tuple[Any, ...]]:
    """The values each matrix key runs through, typed, in the order written."""
    axes: dict[str, list[Any]] = {key: [] for key in matrix}
    for variant, _ in configs:
        for key, value in variant.items():
            if value not in axes[key]:
                axes[key].append(value)
    return {key: tuple(values) for key, values in axes.items()}


def _read_name(root: MapNode, problems: list[str]) -> str:
    node = root.get("name")
    if isinstance(node, Scalar) and NAME.fullmatch(node.text):
        return node.text
    got = f", got {node}" if node is not None else ""
    where = (node or root).where
    problems.append(f"{where}: 'name' must consist of letters, digits, - and _{got}")
    return "unnamed"


def _check_keys(node: MapNode, keys: tuple[str, ...], what: str, problems: list[str]) -> None:
    for key, (key_node, _) in node.entries.items():
        if key not in keys:
            problems.append(f"{key_node.where}: unknown key '{key}' in {what}{nearest(key, keys)}")


def _lookup(node: Node | None, path: list[str]) -> Node | None:
    for key in path:
        if not isinstance(node, MapNode):
            return None
        node = node.get(key)
    return node


def _attribute(config: Any, path: str) -> Any:
    for key in path.split("."):
        config = config[key] if isinstance(config, Mapping) else getattr(config, key)
    return config
