"""`videopipe stages`: what can be used in a pipeline, read off the dataclasses."""

import argparse
import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from videopipe.errors import VideopipeError

SUMMARY = "list the stages, their inputs and every setting with its default and unit"
EXAMPLES = """  videopipe stages
  videopipe stages finetune
"""

WIDEST = 44  # a longer default pushes its meaning to the right, and not everybody's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stages to show."""
    parser.add_argument("names", metavar="STAGE", nargs="*", help="only these, with all settings")


def main(args: argparse.Namespace) -> int:
    """Print the list, or the named stages in full."""
    from videopipe.nodes import nearest
    from videopipe.stages import STAGES

    for name in args.names:
        if name not in STAGES:
            raise VideopipeError(f"there is no stage '{name}'{nearest(name, STAGES)}")
    if not args.names:
        for name, stage in STAGES.items():
            print(f"{name:<10} {_summary(stage)}")
        print("\nvideopipe stages NAME shows every setting of one.")
    for index, name in enumerate(args.names):
        print("\n" * bool(index) + "\n".join(describe_stage(name, STAGES[name])))
    return 0


def describe_stage(name: str, stage: Any) -> Iterator[str]:
    """A stage as text: what it does, takes, gives, and its settings."""
    yield f"{name} (version {stage.version}): {_summary(stage)}"
    for key, accepted in stage.inputs.items():
        how = ("required" if accepted.required else "optional") + (
            ", one or a list" if accepted.many else ""
        )
        yield f"  input {key}: {' or '.join(accepted.kinds)} ({how})"
    yield f"  gives: {stage.output}"
    rows = list(describe_fields(stage.config))
    width = min(max((len(row[0]) for row in rows), default=0), WIDEST)
    for setting, meaning in rows:
        yield f"  {setting:<{width}}  {meaning}".rstrip()


def describe_fields(config: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(`name = default`, `type (unit); help`) of every field, nested ones with their path."""
    from videopipe.scalars import describe

    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from describe_fields(hint, f"{prefix}{field.name}.")
            continue
        words = [describe(hint, field.metadata.get("unit"))]
        if field.metadata.get("help"):
            words.append(field.metadata["help"])
        if field.metadata.get("runtime"):
            words.append("changes speed only, not results")
        yield f"{prefix}{field.name} = {_default(field)}", "; ".join(words)


def _default(field: dataclasses.Field[Any]) -> str:
    from videopipe.config import write_yaml
    from videopipe.fingerprint import as_json

    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "(required)"
    written = write_yaml([as_json(value)]).strip()
    return written[1:-1] if written.startswith("[") else written.removeprefix("- ")


def _summary(stage: Any) -> str:
    import sys

    words = sys.modules[stage.run.__module__].__doc__ or ""
    return words.strip().splitlines()[0] if words.strip() else ""
