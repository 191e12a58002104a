"""Clips per second of a model on given files, for several numbers of processes and threads."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.errors import DataError
from videopipe.scoring.clip_models import choose_device
from videopipe.scoring.engine import Engine
from videopipe.scoring.settings import Execution, Scoring, available_cores
from videopipe.system.status import USED

BOTTLENECK_SHARE = 0.6  # of the time: a part that is waited for longer limits the speed


@dataclass
class Throughput:
    """The speed of a model with one choice of processes and threads."""

    execution: Execution
    clips_per_second: float = 0.0  # the best of the rounds
    waiting_for_decoders: float = 0.0  # as a share of the time of that round
    waiting_for_model: float = 0.0

    @property
    def words(self) -> str:
        """The command-line options that set this choice."""
        threads = self.execution.threads
        chosen = f"--workers {self.execution.workers}"
        return chosen if threads is None else f"{chosen} --threads {threads}"

    @property
    def slower_part(self) -> str:
        """What limits the speed."""
        if self.waiting_for_decoders > BOTTLENECK_SHARE:
            return "decoding"
        return "the model" if self.waiting_for_model > BOTTLENECK_SHARE else "both alike"


def candidates(device: str) -> list[Execution]:
    """Numbers of decoding processes, and of model threads on a CPU, that are worth trying."""
    cores = available_cores()
    counts = sorted({1, max(1, cores // 2), cores})
    if choose_device(device).type != "cpu":
        return [Execution(device=device, workers=count) for count in counts]
    pairs = dict.fromkeys([(cores, cores), *((n, max(1, cores - n)) for n in counts)])
    return [Execution(device=device, workers=w, threads=t) for w, t in pairs]


def measure_throughput(
    network: nn.Module,
    card: ModelCard,
    files: Sequence[Path],
    *,
    device: str = "auto",
    rounds: int = 3,
) -> list[Throughput]:
    """Score all files with each candidate in turn, `rounds` times; the best round counts."""
    found = [Throughput(execution) for execution in candidates(device)]
    engines = [Engine(network, card, Scoring(), one.execution) for one in found]
    try:
        for engine in engines:  # starts its processes
            list(engine.score(files[:1]))
        for _ in range(rounds):
            for one, engine in zip(found, engines, strict=True):
                _take_round(one, engine, files)
    finally:
        for engine in engines:
            engine.close()
    if not any(one.clips_per_second for one in found):
        raise DataError("no video could be scored; see `videopipe check`")
    return found


def _take_round(one: Throughput, engine: Engine, files: Sequence[Path]) -> None:
    waited = (
        engine.times.waiting_for_decoders_seconds,
        engine.times.waiting_for_model_seconds,
    )
    begun = time.perf_counter()
    clips = sum(video.num_clips for video in engine.score(files) if video.status in USED)
    seconds = time.perf_counter() - begun
    if clips / seconds > one.clips_per_second:
        one.clips_per_second = clips / seconds
        times = engine.times
        one.waiting_for_decoders = (times.waiting_for_decoders_seconds - waited[0]) / seconds
        one.waiting_for_model = (times.waiting_for_model_seconds - waited[1]) / seconds
