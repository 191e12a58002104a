"""`--set stage.key=value`: changes the document before it is checked."""

import fnmatch
from collections.abc import Sequence

from videopipe.pipeline.document.nodes import (
    STAGE_KEYS,
    MapNode,
    Node,
    Scalar,
    nearest,
    with_value,
    without,
)
from videopipe.pipeline.document.yaml_text import parse_yaml


def apply_overrides(root: MapNode, overrides: Sequence[str], problems: list[str]) -> MapNode:
    """The nodes of a pipeline with each `stage.key=value` in place; keys may be nested.

    `stage.matrix.key=[…]` sets the values of one key of a matrix, `stage.matrix={…}` all of it;
    `stage.use=…` and `stage.inputs.name=…` set the others. `*` in the name of the stage matches
    several: `*_tuned.recipe.epochs=1`. `defaults.KIND.key=value` sets a default of a kind of stage.
    """
    for override in overrides:
        where = f"--set {override}"
        target, equals, text = override.partition("=")
        path = tuple(target.split("."))
        if not equals or len(path) < 2 or not all(path):
            problems.append(f"{where}: expected STAGE.KEY=VALUE, such as finetuned.lr=1e-4")
            continue
        stages = root.get("stages")
        names = list(stages.entries) if isinstance(stages, MapNode) else []
        chosen = fnmatch.filter(names, path[0])
        of_defaults = path[0] == "defaults" and len(path) > 2 and not chosen
        if not chosen and not of_defaults:
            problems.append(f"{where}: no stage '{path[0]}'{nearest(path[0], names)}")
            continue
        if text.isprintable() and text:
            value = parse_yaml(text, where, problems, where=where)
        else:  # empty, or a name with bytes that are not UTF-8, which YAML refuses
            value = Scalar(where, text, quoted=bool(text))
        if value is None:
            continue
        if of_defaults:
            changed = with_value(root, path, Scalar(where, path[-1]), value)
            assert isinstance(changed, MapNode)
            root = changed
        for name in chosen:
            root = _override(root, name, path[1:], Scalar(where, path[-1]), value)
    return root


def _override(
    root: MapNode, stage: str, path: tuple[str, ...], key: Scalar, value: Node
) -> MapNode:
    """One stage with one value in place."""
    inside = path if path[0] in STAGE_KEYS else ("config", *path)
    varied: list[str] = []  # settings that are no longer one value
    if path[0] == "matrix":
        if len(path) > 1:  # the keys of a matrix are written with their dots
            inside = ("matrix", ".".join(path[1:]))
            varied = [inside[1]]
        elif isinstance(value, MapNode):
            varied = list(value.entries)
    for setting in varied:
        root = without(root, ("stages", stage, "config", *setting.split(".")))
    changed = with_value(root, ("stages", stage, *inside), key, value)
    assert isinstance(changed, MapNode)
    return changed
