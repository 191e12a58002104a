"""`--set stage.key=value`: an edit of the file before it is read, with the same checks."""

import fnmatch
from collections.abc import Sequence

from videopipe.config import parse_yaml
from videopipe.nodes import MapNode, Scalar, nearest, with_value, without


def apply_overrides(root: MapNode, overrides: Sequence[str], problems: list[str]) -> MapNode:
    """The nodes of a pipeline with each `stage.key=value` in place; keys may be nested.

    `stage.matrix.key=[…]` sets what the matrix runs through. `*` in the name of the stage means
    every stage that fits: `*_tuned.recipe.epochs=1`.
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
        if not chosen:
            problems.append(f"{where}: no stage '{path[0]}'{nearest(path[0], names)}")
            continue
        value = parse_yaml(text, where, problems, where=where) if text else Scalar(where, "")
        if value is None:
            continue
        # The keys of a matrix are written with their dots: `matrix: {options.mixer: […]}`.
        varied = path[1] == "matrix" and len(path) > 2
        inside = ("matrix", ".".join(path[2:])) if varied else ("config", *path[1:])
        for name in chosen:
            if varied:  # no longer one value
                root = without(root, ("stages", name, "config", *path[2:]))
            changed = with_value(root, ("stages", name, *inside), Scalar(where, path[-1]), value)
            assert isinstance(changed, MapNode)
            root = changed
    return root
