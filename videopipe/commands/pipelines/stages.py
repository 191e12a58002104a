"""`videopipe stages`: list the stages and their settings, from the dataclasses."""

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

LIMIT = "decides which videos fail; a higher value retries them"
WIDEST = 44  # column width; a longer default shifts its own line only


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the stages to show."""
    parser.add_argument("names", metavar="STAGE", nargs="*", help="only these, with all settings")


def main(args: argparse.Namespace) -> int:
    """Print the list, or the named stages in full."""
    from videopipe.pipeline.document.nodes import nearest
    from videopipe.stages import STAGES

    for name in args.names:
        if name not in STAGES:
            raise VideopipeError(f"no stage '{name}'{nearest(name, STAGES)}")
    if not args.names:
        for name, stage in STAGES.items():
            print(f"{name:<10} {stage.sentence}")
        print("\nvideopipe stages NAME shows every setting of one.")
    for index, name in enumerate(args.names):
        print("\n" * bool(index) + "\n".join(describe_stage(name, STAGES[name])))
    return 0


def describe_stage(name: str, stage: Any) -> Iterator[str]:
    """A stage as text: its summary, inputs, output and settings."""
    yield f"{name} (version {stage.version}): {stage.sentence}"
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
    from videopipe.pipeline.document.scalars import describe

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
            words.append(LIMIT if field.metadata.get("limit") else "does not change the result")
        yield f"{prefix}{field.name} = {_default(field)}", "; ".join(words)


def _default(field: dataclasses.Field[Any]) -> str:
    from videopipe.pipeline.document.yaml_text import write_yaml
    from videopipe.pipeline.fingerprint import as_json

    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "(required)"
    written = write_yaml([as_json(value)]).strip()
    return written[1:-1] if written.startswith("[") else written.removeprefix("- ")
