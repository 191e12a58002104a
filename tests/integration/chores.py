"""A pipeline of small real stages that can be killed anywhere.

As a script (`python chores.py RUNS PIPELINE.yaml LOG`) it runs one in a process of its own. Stages
log when they start, so that a test can count how often each ran.
"""

import dataclasses
import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import write_text
from videopipe.errors import VideopipeError
from videopipe.pipeline.jobs import load_pipeline
from videopipe.pipeline.run import run_jobs
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary
from videopipe.stages import generate


@dataclass(frozen=True, kw_only=True)
class ChainConfig:
    steps: int = 20
    pause_seconds: float = 0.01
    word: str = "word"


def chain(config: ChainConfig, inputs: Inputs, out: Path) -> Summary:
    """A resumable chain of hashes, which is wrong if a step is lost or done twice."""
    state = out / "state.txt"
    if state.exists():
        done, value = int(state.read_text().split()[0]), state.read_text().split()[1]
    else:
        done, value = 0, hashlib.sha256(config.word.encode()).hexdigest()
        for result in inputs.all("before"):
            for file in sorted(result.folder.rglob("*.mp4")) or [result.folder / "value.txt"]:
                value = hashlib.sha256(value.encode() + file.read_bytes()).hexdigest()
    for step in range(done, config.steps):
        value = hashlib.sha256(value.encode()).hexdigest()
        time.sleep(config.pause_seconds)
        write_text(state, f"{step + 1} {value}")
    (out / "value.txt").write_text(value)
    return {"value": value}


def everywhere(config: ChainConfig, inputs: Inputs, out: Path) -> Summary:
    """Every process adds its rank plus one; the sum shows which processes took part."""
    import torch

    total = torch.tensor([int(os.environ.get("RANK", "0")) + 1])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.all_reduce(total)
    if os.environ.get("RANK", "0") == "0":
        (out / "value.txt").write_text(str(int(total)))
    return {"total": int(total)}


def fail(config: ChainConfig, inputs: Inputs, out: Path) -> Summary:
    raise VideopipeError("nothing to be done")


BEFORE = {"before": Input((Kind.DATA, Kind.CLIPS), required=False, many=True)}
STAGES: dict[str, Stage[Any]] = {
    "generate": generate.STAGE,
    "chain": Stage(ChainConfig, chain, 1, Kind.CLIPS, BEFORE),
    "everywhere": Stage(ChainConfig, everywhere, 1, Kind.CLIPS, BEFORE, distributed=True),
    "fail": Stage(ChainConfig, fail, 1, Kind.CLIPS, BEFORE),
}


def logged(stage: Stage[Any], log: Path) -> Stage[Any]:
    """The stage, noting in `log` which process starts which result."""
    run: Callable[..., Summary] = stage.run

    def run_logged(config: Any, inputs: Inputs, out: Path) -> Summary:
        with log.open("a") as file:
            file.write(f"{os.environ.get('RANK', '0')} {out.name.removesuffix('.partial')}\n")
        return run(config, inputs, out)

    return dataclasses.replace(stage, run=run_logged)


def run_pipeline(runs: Path, pipeline: Path, log: Path) -> None:
    """Load and run a pipeline of these stages."""
    stages = {name: logged(stage, log) for name, stage in STAGES.items()}
    run_jobs(load_pipeline(pipeline, stages).jobs, runs)


if __name__ == "__main__":
    try:
        run_pipeline(*map(Path, sys.argv[1:4]))
    except VideopipeError as error:
        sys.exit(f"Error: {error}")
