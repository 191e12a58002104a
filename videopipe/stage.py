"""What a stage is: a frozen config dataclass, a `run` function, and a `STAGE` record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

Config = TypeVar("Config")
Summary = dict[str, Any]  # JSON; the numbers a reader wants first


class Kind(StrEnum):
    """What a result is, so that a wrong connection is found at its line in the YAML."""

    DATA = "data"  # generated data: images/, videos/, unseen/
    BACKBONE = "backbone"  # a 2D checkpoint folder
    VIDEO_MODEL = "video-model"  # a 3D checkpoint folder
    CLIPS = "clips"  # a manifest of videos, maybe with cached frames
    SCORES = "scores"  # an evaluation: metrics.json, scores.parquet
    PREDICTIONS = "predictions"  # a table of predictions
    TABLE = "table"  # a comparison of scores


def shown(value: Any) -> str:
    """A value of a matrix as one writes it in the YAML: 20.0 is "20"."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def variant_in_words(variant: Mapping[str, Any], between: str = ", ") -> str:
    """`length=20, fold=0`."""
    return between.join(f"{key}={shown(value)}" for key, value in variant.items())


@dataclass(frozen=True)
class Result:
    """A finished result: its folder, the stage that made it, and its place in the matrix."""

    folder: Path
    stage: str
    variant: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Input:
    """An input a stage accepts: which kinds, whether it may be absent, whether it takes many."""

    kinds: tuple[Kind, ...]
    required: bool = True
    many: bool = False  # takes every variant of a matrix, and a list of stages


class Inputs:
    """The results given to a stage: `inputs["model"]` is one folder, `inputs.all("x")` many."""

    def __init__(self, results: Mapping[str, Sequence[Result]]) -> None:
        self._results = results

    def __contains__(self, name: str) -> bool:
        return bool(self._results.get(name))

    def __getitem__(self, name: str) -> Path:
        return self._results[name][0].folder

    def all(self, name: str) -> Sequence[Result]:
        """Every result given under this name, with its place in the matrix."""
        return self._results.get(name, ())


@dataclass(frozen=True)
class Stage(Generic[Config]):
    """One kind of step. `run(config, inputs, out)` fills `out` and returns a summary.

    `out` survives an interruption: a stage that finds its own unfinished work goes on with it.
    The runner renames `out` to its final name when `run` returns. `version` is raised whenever the
    same config and inputs would give another result. Under `accelerate launch` every process calls
    `run` of a `distributed` stage; any other runs in the first process while the rest wait.
    """

    config: type[Config]
    run: Callable[[Config, Inputs, Path], Summary]
    version: int
    output: Kind
    inputs: Mapping[str, Input] = field(default_factory=dict)
    distributed: bool = False
