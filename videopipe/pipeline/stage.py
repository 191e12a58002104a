"""A stage: a frozen config dataclass, a `run` function, and a `STAGE` record."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

from videopipe.pipeline.document.scalars import shown

Config = TypeVar("Config")
Summary = dict[str, Any]  # JSON; the most important numbers


class Kind(StrEnum):
    """The kind of a result, by which wrong inputs are found when the YAML is read."""

    DATA = "data"  # generated data: images/, videos/, unseen/
    BACKBONE = "backbone"  # a 2D checkpoint folder
    VIDEO_MODEL = "video-model"  # a 3D checkpoint folder
    CLIPS = "clips"  # a manifest of videos, maybe with cached frames
    FEATURES = "features"  # features of a manifest's videos, and the network that gave them
    SCORES = "scores"  # an evaluation: metrics.json, scores.parquet
    PREDICTIONS = "predictions"  # a table of predictions
    TABLE = "table"  # a comparison of scores


def variant_in_words(variant: Mapping[str, Any], between: str = ", ") -> str:
    """`length=20, fold=0`."""
    return between.join(f"{key}={shown(value)}" for key, value in variant.items())


@dataclass(frozen=True)
class Failure:
    """An item of a result that could not be processed; it can be retried."""

    item: str  # such as the path of a video
    reason: str


@dataclass(frozen=True)
class Result:
    """The result of a job: its folder, and how it is made."""

    folder: Path
    stage: str
    variant: Mapping[str, Any] = field(default_factory=dict)  # its place in the matrix
    summary: Mapping[str, Any] = field(default_factory=dict)
    config: Any = None
    inputs: "Inputs | None" = None


@dataclass(frozen=True)
class Input:
    """An input of a stage: its kinds, whether it is required, whether it takes many."""

    kinds: tuple[Kind, ...]
    required: bool = True
    many: bool = False  # takes all variants of a matrix, and a list of stages


class Inputs:
    """The results given to a stage: `inputs["model"]` is one folder, `inputs.all("x")` many."""

    def __init__(self, results: Mapping[str, Sequence[Result]]) -> None:
        self._results = results

    def __contains__(self, name: str) -> bool:
        return bool(self._results.get(name))

    def __getitem__(self, name: str) -> Path:
        return self._results[name][0].folder

    def result(self, name: str) -> Result:
        """The one result given under this name, with its config and its own inputs."""
        return self._results[name][0]

    def all(self, name: str) -> Sequence[Result]:
        """Every result given under this name, with its place in the matrix."""
        return self._results.get(name, ())


@dataclass(frozen=True)
class Stage(Generic[Config]):
    """One kind of step. `run(config, inputs, out)` fills `out` and returns a summary.

    `out` survives an interruption: a stage that finds unfinished work in it resumes. The runner
    renames `out` to its final name when `run` returns. `version` is raised whenever the same config
    and inputs would give another result. Under `accelerate launch` every process calls `run` of a
    `distributed` stage; any other stage runs in the first process while the others wait.

    `check(config, inputs)` raises a DataError when the stage cannot succeed. It is called before
    each earlier job runs, so an input may not be complete yet. `failures(folder)` lists the items
    of a result that failed. Before they are retried, `keep(config, inputs, folder, out)` copies to
    `out` what need not be made again. `outcome(summary)` is the summary in words.
    """

    config: type[Config]
    run: Callable[[Config, Inputs, Path], Summary]
    version: int
    output: Kind
    inputs: Mapping[str, Input] = field(default_factory=dict)
    distributed: bool = False
    check: Callable[[Config, Inputs], None] | None = None
    failures: Callable[[Path], Sequence[Failure]] | None = None
    keep: Callable[[Config, Inputs, Path, Path], None] | None = None
    outcome: Callable[[Summary], str] | None = None

    @property
    def sentence(self) -> str:
        """A description: the first line of the module that defines the stage."""
        words = sys.modules[self.run.__module__].__doc__ or ""
        return words.strip().split("\n", 1)[0]
