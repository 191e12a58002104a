"""One network at other frame rates and clip lengths, with and without the rate of the time axis.

The paper names this as future work. A kernel along time that is sampled from a continuous one can
be sampled for any frame rate; a kernel of taps cannot.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation.labelled import Journal, score_records
from videopipe.evaluation.score_table import ScoreTable
from videopipe.evaluation.statistics import compare_paired, proportion
from videopipe.inflation.time_axis import time_spaces
from videopipe.scoring.settings import Execution, Scoring


def resolution_table(
    network: nn.Module,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    *,
    frame_rates: Sequence[float],
    clip_lengths: Sequence[float],
    scoring: Scoring,
    execution: Execution,
    journal: Journal | None = None,
    check: Callable[[ScoreTable], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Top-1 for every frame rate and clip length, with the right rate and with rate 1.

    `check` is called with every table of scores and raises when it must not be used.
    """
    if not frame_rates:
        return []
    if card.num_frames is None or card.clip_seconds is None:
        raise DataError("frame_rates need a video network; this checkpoint names no clip length")
    base_rate = card.num_frames / card.clip_seconds
    has_state_space = any(True for _ in time_spaces(network))
    found = []
    for seconds in clip_lengths or (card.clip_seconds,):
        for frames_per_second in frame_rates:
            num_frames = max(1, round(frames_per_second * seconds))
            rate = base_rate * seconds / num_frames
            shape = replace(scoring, num_frames=num_frames, clip_seconds=seconds)

            def score(rate: float, shape: Scoring = shape) -> ScoreTable:
                table = score_records(
                    FixedTimeRate(network, rate).eval(), card, records, labels,
                    scoring=shape, execution=execution,
                    journal=None if journal is None else journal.also(rate=rate),
                )  # fmt: skip
                check(table)
                return table

            with_rate = score(rate)
            # Convolutions have no rate, and the base rate is rate 1.
            without_rate = score(1.0) if has_state_space and rate != 1.0 else with_rate
            found.append(
                {
                    "frames_per_second": num_frames / seconds,
                    "clip_seconds": seconds,
                    "num_frames": num_frames,
                    "rate": rate,
                    "with_rate": _top1(with_rate),
                    "without_rate": _top1(without_rate),
                    "failed": sorted({*with_rate.failed, *without_rate.failed}),
                    "paired": asdict(
                        compare_paired(
                            without_rate.ranks() == 0, with_rate.ranks() == 0, with_rate.recordings
                        )
                    ),
                }
            )
    return found


class FixedTimeRate(nn.Module):
    """A video network whose time axis runs at `rate` base samples per frame."""

    def __init__(self, network: nn.Module, rate: float) -> None:
        super().__init__()
        self.network, self.rate = network, rate

    def forward(self, clip: Tensor) -> Tensor:
        """(batch, channels, time, height, width) -> logits; height and width have rate 1."""
        return self.network(clip, (self.rate, 1.0, 1.0))


def _top1(table: ScoreTable) -> dict[str, Any]:
    return asdict(proportion(table.ranks() == 0, table.recordings))
