"""Small stages for test pipelines: they write files, join inputs and fail like the real ones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from pretrained_2d.setting import setting
from videopipe.pipeline.jobs import Pipeline, load_pipeline
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    lr: float = setting(1e-3, "peak learning rate")
    betas: tuple[float, float] = (0.9, 0.999)


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    epochs: int = 3
    clip_seconds: float = setting(2.0, "length of a clip", unit="seconds")
    rule: Literal["i3d", "s3d", "s4nd"] = "s4nd"
    optimiser: OptimiserConfig = OptimiserConfig()
    note: str = "plain"
    shuffle: bool = True
    sizes: tuple[int, ...] = (1, 2)
    options: dict[str, float] = setting(default_factory=dict)
    limit: int | None = None
    workers: int = setting(2, "decoding processes", runtime=True)

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be 1 or more, got {self.epochs}")


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    data: Path | None = None
    words: str = "words"
    cache: Path | None = setting(None, "a folder for speed", runtime=True)


@dataclass(frozen=True, kw_only=True)
class NoConfig:
    pass


def read(config: ReadConfig, inputs: Inputs, out: Path) -> Summary:
    (out / "words.txt").write_text(config.words)
    return {"words": config.words}


def fit(config: FitConfig, inputs: Inputs, out: Path) -> Summary:
    text = (inputs["clips"] / "words.txt").read_text()
    (out / "model.txt").write_text(f"{text} {config.rule} {config.epochs}")
    return {"length": len(text), "rate": config.optimiser.lr}


def score(config: NoConfig, inputs: Inputs, out: Path) -> Summary:
    (out / "score.txt").write_text((inputs["model"] / "model.txt").read_text().upper())
    return {}


def table(config: NoConfig, inputs: Inputs, out: Path) -> Summary:
    rows = [
        f"{result.stage} {dict(result.variant)} {(result.folder / 'score.txt').read_text()}"
        for result in inputs.all("scores")
    ]
    (out / "table.txt").write_text("\n".join(rows))
    return {"rows": len(rows)}


STAGES: dict[str, Stage[Any]] = {
    "read": Stage(ReadConfig, read, 1, Kind.CLIPS),
    "fit": Stage(FitConfig, fit, 1, Kind.VIDEO_MODEL, {"clips": Input((Kind.CLIPS,))}),
    "score": Stage(
        NoConfig,
        score,
        1,
        Kind.SCORES,
        {"model": Input((Kind.VIDEO_MODEL, Kind.BACKBONE)), "clips": Input((Kind.CLIPS,), False)},
    ),
    "table": Stage(NoConfig, table, 1, Kind.TABLE, {"scores": Input((Kind.SCORES,), many=True)}),
}


@pytest.fixture(name="stages")
def stages_fixture() -> dict[str, Stage[Any]]:
    """The literal dictionary of small stages; a test may change its own copy."""
    return dict(STAGES)


@pytest.fixture
def load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: dict[str, Stage[Any]]
) -> Callable[..., Pipeline]:
    """`load(text, *overrides)`: the pipeline of a YAML text, in a file called p.yaml."""
    monkeypatch.chdir(tmp_path)

    def load_text(text: str, *overrides: str, check_paths: bool = True) -> Pipeline:
        Path("p.yaml").write_text(text)
        return load_pipeline(Path("p.yaml"), stages, overrides=overrides, check_paths=check_paths)

    return load_text
