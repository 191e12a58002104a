"""`videopipe graph`: the stages of a pipeline and their inputs, as text or Mermaid."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from videopipe.commands.arguments import add_pipeline_arguments
from videopipe.pipeline.document.scalars import shown

if TYPE_CHECKING:
    from videopipe.pipeline.jobs import Pipeline

SUMMARY = "draw a pipeline as text or as a Mermaid diagram"
EXAMPLES = """  videopipe graph demo
  videopipe graph pipelines/hmdb51_s4nd.yaml --format mermaid > graph.mmd
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add PIPELINE and the format."""
    add_pipeline_arguments(parser)
    parser.add_argument("--format", choices=("text", "mermaid"), default="text")


def main(args: argparse.Namespace) -> int:
    """Print the graph; paths need not exist."""
    from videopipe.pipeline.jobs import find_pipeline, load_pipeline
    from videopipe.stages import STAGES

    pipeline = load_pipeline(
        find_pipeline(args.pipeline), STAGES, overrides=args.overrides, check_paths=False
    )
    draw = {"text": as_text, "mermaid": as_mermaid}[args.format]
    print("\n".join(draw(pipeline)))
    return 0


def as_text(pipeline: "Pipeline") -> Iterator[str]:
    """One line per stage: its kind, its inputs, and how many results it has."""
    yield pipeline.name
    stages = pipeline.resolved["stages"]
    width = max(len(name) for name in stages)
    for name, stage in stages.items():
        count = sum(job.stage == name for job in pipeline.jobs)
        times = f"  × {count}" if count > 1 else ""
        sources = "  <- " + ", ".join(_sources(stage)) if stage.get("inputs") else ""
        axes = [f"{key} in {_values(values)}" for key, values in stage.get("matrix", {}).items()]
        matrix = f"  matrix: {'; '.join(axes)}" if axes else ""
        yield f"  {name:<{width}}  {stage['use']}{times}{sources}{matrix}"


def as_mermaid(pipeline: "Pipeline") -> Iterator[str]:
    """A Mermaid flowchart, which GitHub and most editors draw."""
    yield "flowchart TD"
    for name, stage in pipeline.resolved["stages"].items():
        axes = [f"<br/>{key}: {_values(v)}" for key, v in stage.get("matrix", {}).items()]
        label = f"{name}<br/><i>{stage['use']}</i>{''.join(axes)}".replace('"', "#quot;")
        yield f'    {_node(name)}["{label}"]'
    for name, stage in pipeline.resolved["stages"].items():
        for key, sources in stage.get("inputs", {}).items():
            for source in sources if isinstance(sources, list) else [sources]:
                yield f"    {_node(source)} -->|{key}| {_node(name)}"


def _values(values: Sequence[object]) -> str:
    return f"[{', '.join(map(shown, values))}]"


def _node(name: str) -> str:
    return "stage_" + name.replace("-", "_")  # "end" and other words are keywords of Mermaid


def _sources(stage: dict[str, dict[str, list[str] | str]]) -> list[str]:
    return [
        source
        for sources in stage["inputs"].values()
        for source in (sources if isinstance(sources, list) else [sources])
    ]
