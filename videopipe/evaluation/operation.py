"""Evaluate a network on labelled videos: the code that the stage and the command share."""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.clips.notation import describe_sampling, typical_rate
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation.context import describe_model, describe_protocol
from videopipe.evaluation.labelled import Journal, check_classes, check_failed, score_records
from videopipe.evaluation.multi_label import measure_multi_label
from videopipe.evaluation.score_table import Metrics, measure, write_evaluation
from videopipe.evaluation.temporal_resolution import resolution_table
from videopipe.scoring.settings import Execution, Scoring
from videopipe.system.processes import connected_processes
from videopipe.system.progress import detail_line, progress

JOURNAL = "scores.parts"  # scores of single videos, until the evaluation is complete


def evaluate_videos(
    network: nn.Module,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    out: Path,
    *,
    split: str,
    identity: Mapping[str, Any],
    scoring: Scoring,
    execution: Execution,
    max_failed: float,
    frame_rates: Sequence[float] = (),
    clip_lengths: Sequence[float] = (),
) -> Metrics:
    """Write scores.parquet and metrics.json to `out`; several processes share the videos.

    Each score is in the journal as soon as it is known, so that an interrupted evaluation resumes.
    `identity` (JSON) identifies the model, since the journal may hold scores of others.
    """
    check_classes(network, card, records, labels)
    if card.multi_label and frame_rates:
        raise DataError(
            "frame_rates compare accuracies, which data with several labels per video does not "
            "have; leave frame_rates out"
        )
    sampling = describe_sampling(
        *scoring.clip_shape(card), typical_rate(records), scoring.clips or 1
    )
    how_many = "evenly spread" if scoring.clips else "as many as cover each video"
    sampling = f"{sampling}, {how_many}"
    detail_line(f"evaluating on clips of {sampling}")
    processes = connected_processes()
    journal = Journal(out / JOURNAL, identity)
    share = len(records[processes.rank :: processes.count])
    label = (
        "evaluating" if processes.count == 1 else f"evaluating 1/{processes.count} of the videos"
    )
    with progress(label, total=share, unit="videos") as bar:
        table = score_records(
            network, card, records, labels,
            scoring=scoring, execution=execution, journal=journal, on_video=bar.advance,
        )  # fmt: skip
    check_table = partial(check_failed, max_failed=max_failed)
    check_table(table)
    resolutions = resolution_table(
        network, card, records, labels,
        frame_rates=frame_rates, clip_lengths=clip_lengths,
        scoring=scoring, execution=execution, journal=journal,
        check=check_table,
    )  # fmt: skip
    metrics = {
        **(measure_multi_label(table) if table.multi_label else measure(table)),
        **describe_model(network, card),
        **describe_protocol(card, split),
        "split": split,
        "sampling": sampling,
        "average": scoring.average,
        "crops": scoring.crops,
        "temporal_resolution": resolutions,
    }
    if processes.first:
        write_evaluation(out, table, metrics)
        failed_elsewhere = any(row["failed"] for row in resolutions)  # at another frame rate
        if not (table.failed or failed_elsewhere):  # else --retry-failed resumes from the journal
            shutil.rmtree(journal.folder, ignore_errors=True)
    return metrics
