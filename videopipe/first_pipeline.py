"""A pipeline for a folder of videos that was looked at first, written with its reasons."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pretrained_2d.card import ModelCard
from pretrained_2d.checkpoint import read_card
from videopipe.errors import DataError

NUM_LOOKED_AT = 24  # videos whose length is read; enough to choose a clip length
LONGEST_CLIP_SECONDS = 2.0  # the paper's; longer videos give several clips
NUM_FRAMES = 16
SMALL_DATASET_VIDEOS = 500


@dataclass(frozen=True)
class Findings:
    """What a look at the data said."""

    data: Path
    layout: str
    classes: int
    splits: dict[str, int]  # videos in each
    clip_seconds: float
    typical_seconds: float  # median over the videos looked at

    @property
    def videos(self) -> int:
        """All of them."""
        return sum(self.splits.values())


def look_at(data: Path) -> Findings:
    """Recognise the layout and read the length of some videos, where nothing can hang us."""
    from videopipe.data.inspection import inspect_records
    from videopipe.data.layouts import Division, find_dataset

    manifest = find_dataset(data, division=Division(validation="none"))
    if len(manifest.labels) < 2:
        raise DataError(
            f"{data}: {len(manifest.records)} videos, but no classes to learn ({manifest.layout}); "
            "put the videos into one folder per class, or give a CSV with the columns path,label"
        )
    step = max(1, len(manifest.records) // NUM_LOOKED_AT)
    some = manifest.records[::step][:NUM_LOOKED_AT]
    seen = inspect_records(some, depth="header", workers=2, timeout_seconds=30.0)
    lengths = [one.duration_seconds for one in seen if one.duration_seconds]
    if not lengths:
        raise DataError(f"{data}: none of {len(some)} videos can be read; see `videopipe check`")
    typical = float(median(lengths))
    return Findings(
        data=data,
        layout=manifest.layout,
        classes=len(manifest.labels),
        splits=dict(Counter(record.split or "none" for record in manifest.records)),
        clip_seconds=round(min(LONGEST_CLIP_SECONDS, typical), 1) or 0.1,
        typical_seconds=typical,
    )


HEAD = """\
# Classifies the videos in {data}
# Found: {layout}
#        {videos} videos ({splits}), {classes} classes, about {seconds:.1f} seconds each
# Run:   videopipe run THIS_FILE
name: {name}
stages:
"""
FILE = """\
  backbone: # a 2D network trained on images; `videopipe models` lists what can be adopted
    use: adopt
    config:
      checkpoint: {checkpoint}
      architecture: {architecture}
      image_size: {image_size}
"""
FOLDER = """\
  backbone: # {network}, as its config.json says
    use: adopt
    config: {{checkpoint: {checkpoint}}}
"""
INFLATE = """\
  inflated: # it gains a time axis that starts as the identity: nothing is lost
    use: inflate
    inputs: {{backbone: backbone}}
    config:
      method: s4nd
      num_frames: {num_frames}
      clip_seconds: {clip_seconds} # a longer video gives several clips
      num_classes: {classes}
"""
REST = """\
  clips:
    use: decode
    config:
      data: {data}{division}
  model:
    use: finetune
    inputs: {{model: {model}, clips: clips}}
    config:
      augmentation: {{flip: 0.5}} # 0 where left and right mean different things{small}
      recipe:{recipe}
  scores:
    use: evaluate
    inputs: {{model: model, clips: clips}}
"""
SMALL_BATCHES = """
      freeze_batch_norm: true # small batches have no statistics worth keeping"""
FEW_VIDEOS = """ # few videos: small batches, few epochs
        epochs: 30
        batch_size: 8
        accumulation: 1
        lr: 3e-4
        weight_decay: 0.05
        warmup_epochs: 1
        clip_grad_norm: 1.0"""
MANY_VIDEOS = " {epochs: 50} # the rest as in the paper: batches of 64, lr 1e-4, weight decay 0.2"
NO_TEST_SPLIT = """
      num_folds: 5 # no test split: one in five is kept for testing, recordings stay together"""


def write_pipeline(
    found: Findings, *, checkpoint: str, architecture: str | None, image_size: int
) -> str:
    """The YAML, with a comment where a choice was made.

    A checkpoint folder says itself what it is, and a network with a time axis needs no inflation.
    """
    card = read_card(Path(checkpoint)) if Path(checkpoint).is_dir() else None
    has_time = card is not None and card.ndim == 3
    few = found.videos < SMALL_DATASET_VIDEOS
    text = HEAD + (FILE if card is None else FOLDER) + ("" if has_time else INFLATE) + REST
    return text.format(
        data=_quoted(str(found.data.resolve())),
        name=re.sub(r"[^A-Za-z0-9_-]+", "_", found.data.resolve().stem).strip("_") or "videos",
        layout=found.layout,
        videos=found.videos,
        splits=", ".join(f"{count} {name}" for name, count in found.splits.items()),
        classes=found.classes,
        seconds=found.typical_seconds,
        network=_in_words(card) if card else "",
        model="backbone" if has_time else "inflated",
        checkpoint=_quoted(checkpoint),
        architecture=architecture or "convnext_tiny",
        image_size=image_size,
        num_frames=NUM_FRAMES,
        clip_seconds=found.clip_seconds,
        division="" if "test" in found.splits else NO_TEST_SPLIT,
        small=SMALL_BATCHES if few else "",
        recipe=FEW_VIDEOS if few else MANY_VIDEOS,
    )


def _in_words(card: ModelCard) -> str:
    if card.ndim < 3:
        return f"{card.architecture}, a network of images"
    return f"{card.architecture} on {card.num_frames} frames in {card.clip_seconds} seconds"


def _quoted(text: str) -> str:
    """A YAML string whatever it contains; a variable such as $WEIGHTS stays readable."""
    plain = text.replace("/", "").replace("_", "").replace("-", "").replace(".", "").lstrip("$")
    return text if plain.isalnum() and not plain.isdigit() else json.dumps(text)
