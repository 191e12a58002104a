"""One network at other frame rates and clip lengths: does telling the time axis the rate help?

The paper names this as future work. A kernel along time that is sampled from a continuous one can
be sampled for any frame rate; a kernel of taps cannot.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from pretrained_2d.card import ModelCard
from videopipe.data.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation import ScoreTable
from videopipe.finetuning.time_axis import time_spaces
from videopipe.inference.settings import Execution, Scoring
from videopipe.scoring import AtRate, score_records
from videopipe.statistics import compare_paired, proportion


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
) -> list[dict[str, Any]]:
    """Top-1 for every frame rate and clip length, with the right rate and with rate 1."""
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
                return score_records(
                    AtRate(network, rate).eval(), card, records, labels,
                    scoring=shape, execution=execution,
                )  # fmt: skip

            told = score(rate)
            # Taps know no rate, and at the base rate there is nothing to tell.
            untold = score(1.0) if has_state_space and rate != 1.0 else told
            found.append(
                {
                    "frames_per_second": num_frames / seconds,
                    "clip_seconds": seconds,
                    "num_frames": num_frames,
                    "rate": rate,
                    "with_rate": _top1(told),
                    "without_rate": _top1(untold),
                    "paired": asdict(compare_paired(untold.ranks() == 0, told.ranks() == 0)),
                }
            )
    return found


def _top1(table: ScoreTable) -> dict[str, Any]:
    ranks = table.ranks()
    return asdict(proportion(int((ranks == 0).sum()), len(ranks)))
