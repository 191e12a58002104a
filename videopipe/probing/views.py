"""Which videos and which frames of them become features."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.manifest import Manifest
from videopipe.errors import DataError
from videopipe.probing.feature_file import ViewLayout
from videopipe.probing.network import feature_shape
from videopipe.probing.probe_config import FeaturesConfig
from videopipe.scoring.settings import DEFAULT_CLIP_SECONDS, DEFAULT_NUM_FRAMES


def chosen_videos(manifest: Manifest, splits: Sequence[str] | None) -> Manifest:
    """The videos of these splits, or all."""
    if splits is None:
        return manifest
    known = {record.split for record in manifest.records}
    wanted = {"test" if s == "val" and manifest.val_is_test else s for s in splits}
    if wanted - known:
        raise DataError(
            f"splits names {', '.join(sorted(wanted - known))}, but {manifest.root} has "
            f"{', '.join(f'{count} {name}' for name, count in manifest.counts().items())}"
        )
    return replace(manifest, records=tuple(r for r in manifest.records if r.split in wanted))


def view_layout(config: FeaturesConfig, network: nn.Module, card: ModelCard) -> ViewLayout:
    """Frames, seconds and shape of the views, from the settings and the card."""
    own_frames = card.num_frames or DEFAULT_NUM_FRAMES
    own_seconds = card.clip_seconds or DEFAULT_CLIP_SECONDS
    unit = 1 if card.ndim == 2 else own_frames
    if config.frame_rate is not None:
        clip_seconds = config.clip_seconds or own_seconds
        num_frames = unit * max(1, round(clip_seconds * config.frame_rate / unit))
    else:
        num_frames = config.num_frames or own_frames
        clips = num_frames / own_frames if card.ndim == 3 else 1
        clip_seconds = config.clip_seconds or own_seconds * clips
    if num_frames % unit:
        raise DataError(
            f"num_frames is {num_frames}; this video network takes clips of {unit} frames, so "
            f"expected a multiple of {unit}"
        )
    return ViewLayout(
        shape=feature_shape(network, card, num_frames),
        views=config.views * (1 + config.mirror),
        num_frames=num_frames,
        clip_seconds=clip_seconds,
    )
