"""`videopipe init`: inspect a folder of videos and write a pipeline for it, with comments."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import median

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import WEIGHTS, read_card
from videopipe.dataset.layouts.division import Division
from videopipe.errors import DataError

NUM_INSPECTED = 24  # videos whose length is read, to choose a clip length
LONGEST_CLIP_SECONDS = 2.0  # the paper's; longer videos give several clips
NUM_FRAMES = 16
SMALL_DATASET_VIDEOS = 5000


@dataclass(frozen=True)
class DatasetSummary:
    """What is known of a data set after the inspection."""

    data: Path
    layout: str
    classes: int
    splits: dict[str, int]  # videos in each
    clip_seconds: float
    typical_seconds: float  # median over the inspected videos

    @property
    def videos(self) -> int:
        """The number of videos in all splits."""
        return sum(self.splits.values())

    @property
    def training_videos(self) -> int:
        """About as many as `clips` leaves for training, once it has divided them."""
        known = self.splits.get("train", 0) if "test" in self.splits else 0.8 * self.videos
        return max(2, round(known if "val" in self.splits else 0.9 * known))


def inspect_dataset(data: Path) -> DatasetSummary:
    """Recognise the layout and read the length of some videos, in processes with a timeout."""
    from videopipe.dataset.inspection import inspect_records
    from videopipe.dataset.layouts.recognise import find_dataset

    manifest = find_dataset(data, division=Division(validation="none"))
    if len(manifest.labels) < 2:
        raise DataError(
            f"{data}: {len(manifest.records)} videos, but no classes to learn ({manifest.layout}); "
            "put the videos into one folder per class, or give a CSV with the columns path,label"
        )
    step = max(1, len(manifest.records) // NUM_INSPECTED)
    some = manifest.records[::step][:NUM_INSPECTED]
    seen = inspect_records(some, depth="header", workers=2, timeout_seconds=30.0)
    lengths = [one.duration_seconds for one in seen if one.duration_seconds]
    if not lengths:
        raise DataError(f"{data}: none of {len(some)} videos can be read; see `videopipe check`")
    typical = float(median(lengths))
    return DatasetSummary(
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
  backbone: # {network}
    use: adopt
    config: {{checkpoint: {checkpoint}}}
"""
INFLATE = """\
  inflated: # adds a time axis; a still video keeps the logits of its image
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
      augmentation: {{flip: 0}} # 0.5 where left and right mean the same
      recipe:{recipe}
  scores:
    use: evaluate
    inputs: {{model: model, clips: clips}}
"""
# With frozen batch norm and a learning rate of 3e-4, a network stayed at chance for several epochs
# on videos unlike ImageNet (docs/results.md). Networks without batch norm need smaller steps.
BATCH_NORM_LR, OTHER_LR = "1e-3", "2e-4"
FEW_VIDEOS_STEPS = 800
LARGEST_BATCH = 16
FEW_VIDEOS = """ # few videos: small batches, about {steps} steps, trained norms
        epochs: {epochs}
        batch_size: {batch_size}
        accumulation: 1
        lr: {lr} # {norms}
        weight_decay: 0.05
        warmup_epochs: 1
        clip_grad_norm: 1.0"""
MANY_VIDEOS = " {epochs: 50} # the rest as in the paper: batches of 64, lr 1e-4, weight decay 0.2"
NO_TEST_SPLIT = """
      num_folds: 5 # no test split: one fifth for testing, whole recordings at a time"""


def write_pipeline(
    found: DatasetSummary, *, checkpoint: str, architecture: str | None, image_size: int
) -> str:
    """The YAML text, with a comment for each choice.

    The card of a checkpoint folder gives its architecture; one with a time axis is not inflated.
    """
    card = read_card(Path(checkpoint)) if Path(checkpoint).is_dir() else None
    has_time = card is not None and card.ndim == 3
    few = found.videos < SMALL_DATASET_VIDEOS
    architecture = architecture or "convnext_tiny"
    has_batch_norm = (
        _architecture_has_batch_norm(architecture)
        if card is None
        else _weights_have_batch_norm(Path(checkpoint) / WEIGHTS)
    )
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
        architecture=architecture,
        image_size=image_size,
        num_frames=NUM_FRAMES,
        clip_seconds=found.clip_seconds,
        division="" if "test" in found.splits else NO_TEST_SPLIT,
        recipe=_recipe_for_few(found.training_videos, has_batch_norm) if few else MANY_VIDEOS,
    )


def _recipe_for_few(videos: int, has_batch_norm: bool) -> str:
    """At least four batches per epoch, and enough epochs to learn from few videos."""
    batch_size = max(2, min(LARGEST_BATCH, 2 ** int(log2(max(8, videos) / 4))))
    steps_per_epoch = max(1, videos // batch_size)
    epochs = max(10, min(100, round(FEW_VIDEOS_STEPS / steps_per_epoch)))
    return FEW_VIDEOS.format(
        steps=epochs * steps_per_epoch,
        epochs=epochs,
        batch_size=batch_size,
        lr=BATCH_NORM_LR if has_batch_norm else OTHER_LR,
        norms="a network with batch norms" if has_batch_norm else "a network without batch norms",
    )


def _architecture_has_batch_norm(architecture: str) -> bool:
    import torch

    from pretrained_2d import build

    with torch.device("meta"):  # no memory, no random numbers
        modules = build(architecture).modules()
    return any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in modules)


def _weights_have_batch_norm(weights: Path) -> bool:
    from safetensors import safe_open

    with safe_open(weights, framework="pt") as tensors:
        return any(name.endswith("running_mean") for name in tensors.keys())  # noqa: SIM118


def _in_words(card: ModelCard) -> str:
    if card.ndim < 3:
        return f"{card.architecture}, a network of images"
    return f"{card.architecture} on {card.num_frames} frames in {card.clip_seconds} seconds"


def _quoted(text: str) -> str:
    """Any text as a YAML string; a variable such as $WEIGHTS stays readable."""
    plain = text.replace("/", "").replace("_", "").replace("-", "").replace(".", "").lstrip("$")
    return text if plain.isalnum() and not plain.isdigit() else json.dumps(text)
