"""Running a network once over every video of a manifest, and keeping the features."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.clips.sampling import Clip, frame_times
from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.models import load_model
from videopipe.probing.completion import complete, summarise
from videopipe.probing.feature_file import (
    ABOUT,
    Features,
    FeatureWriter,
    ViewLayout,
    read_journals,
)
from videopipe.probing.network import StepFeatures
from videopipe.probing.probe_config import FeaturesConfig
from videopipe.probing.views import chosen_videos, view_layout
from videopipe.scoring.engine import Engine
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Scoring
from videopipe.system.processes import Processes, connected_processes
from videopipe.system.status import USED

OUT_OF_RANGE = "the features exceed the range of float16 (65504)"


def extract_features(
    config: FeaturesConfig,
    model: Path,
    manifest: Manifest,
    out: Path,
    on_video: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """Fill `out` with the features of the videos of a manifest; resumes what `out` holds already.

    Every process of a launch takes part: each runs over its share of the videos. Videos that
    failed in an interrupted attempt are tried again.
    """
    processes = connected_processes()
    manifest = chosen_videos(manifest, config.splits)
    if not (out / ABOUT).exists():
        network, card = load_model(model)
        layout = view_layout(config, network, card)
        _extract_share(config, network, card, manifest, layout, out, processes, on_video)
        processes.wait()
        problem = None
        if processes.first:
            try:
                complete(config, model, manifest, layout, out)
            except DataError as error:
                problem = str(error)
        problem = processes.share(problem)
        if problem is not None:
            raise DataError(problem)
    return summarise(out)


class _FlatFeatures(nn.Module):
    """The features of a clip as one row of numbers, the form in which the engine returns them."""

    def __init__(self, features: StepFeatures, mirror: bool) -> None:
        super().__init__()
        self.features, self.mirror = features, mirror

    def forward(self, clip: Tensor) -> Tensor:
        """(batch, 3, time, height, width) -> (batch, [2 ×] steps × channels)."""
        views = [self.features(clip)]  # each (batch, channels, steps)
        if self.mirror:
            views.append(self.features(clip.flip(-1)))
        return torch.stack([view.mT for view in views], 1).flatten(1)


def _extract_share(
    config: FeaturesConfig,
    network: nn.Module,
    card: ModelCard,
    manifest: Manifest,
    layout: ViewLayout,
    out: Path,
    processes: Processes,
    on_video: Callable[[], Any],
) -> None:
    """Write the rows of this process's videos that are not there yet."""
    records, shape = manifest.records, layout.shape
    done = {index for index, line in read_journals(out).items() if line["status"] in USED}
    # By number, not by order of arrival: processes may read the journals at different times.
    own = range(processes.rank, len(records), processes.count)
    for _ in done & set(own):
        on_video()
    row = (layout.views, shape.steps, shape.channels)
    writer = FeatureWriter(out, (len(records), *row), processes.rank)
    waiting = [index for index in own if index not in done]
    try:
        for index in [index for index in waiting if not records[index].usable]:
            writer.write(index, None, _line(records[index].status, records[index].reason))
            on_video()
        readable = [index for index in waiting if records[index].usable]
        for index, features, line in _rows(config, network, card, records, readable, layout):
            writer.write(index, features, line)
            on_video()
    finally:
        writer.close()


def _rows(
    config: FeaturesConfig,
    network: nn.Module,
    card: ModelCard,
    records: Sequence[VideoRecord],
    indices: Sequence[int],
    layout: ViewLayout,
) -> Iterator[tuple[int, Features | None, dict[str, Any]]]:
    """Features and journal line of every video, as they get ready."""
    shape = layout.shape
    flat = _FlatFeatures(StepFeatures(network, shape.ndim, shape.window), config.mirror)
    scoring = Scoring(
        windows=True,  # one result per view
        num_frames=layout.num_frames,
        clip_seconds=layout.clip_seconds,
        precision=config.precision,
        decoder=config.decoder,
    )
    underway: dict[int, list[VideoScores]] = {}
    with Engine(flat, replace(card, ndim=3), scoring, config.execution) as engine:
        engine.plan = replace(engine.plan, clips=config.views)
        for view in engine.score(records[index] for index in indices):
            underway.setdefault(view.index, []).append(view)
            if view.last:
                views = underway.pop(view.index)
                yield (indices[view.index], *_row(views, config, layout))


def _row(
    results: Sequence[VideoScores], config: FeaturesConfig, layout: ViewLayout
) -> tuple[Features | None, dict[str, Any]]:
    """One video's (views, steps, channels) and its journal line.

    If decoding failed after some views, those views are repeated in place of the missing ones.
    """
    good = [result for result in results if result.status in USED]
    last = results[-1]
    if not good or last.status not in (*USED, "error"):
        return None, _line(last.status, last.reason)
    status = "ok" if len(good) == config.views else "partial"
    good = [good[number % len(good)] for number in range(config.views)]
    shape = (layout.views // config.views, layout.shape.steps, layout.shape.channels)
    starts = [result.start_seconds or 0.0 for result in good]
    with np.errstate(over="ignore"):
        rows = [np.asarray(result.logits).astype(np.float16).reshape(shape) for result in good]
    features: Features = np.concatenate(rows)
    if not np.isfinite(features).all():
        return None, _line("error", OUT_OF_RANGE)
    clips = [Clip(start, start + layout.clip_seconds) for start in starts]
    times = [frame_times(clip, layout.shape.steps) for clip in clips for _ in range(shape[0])]
    return features, _line(status, last.reason, times=times)


def _line(status: str, reason: str | None, **more: Any) -> dict[str, Any]:
    return {"status": status, "reason": reason or "", **more}
