"""Apply a network to clips, preprocessed according to its card."""

from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.layers.convolution import fold_time
from videopipe.scoring.settings import Scoring

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class ClipClassifier:
    """A network and its card: uint8 clips in, logits and optionally embeddings out."""

    def __init__(self, network: nn.Module, card: ModelCard, scoring: Scoring) -> None:
        self.network, self.card, self.scoring = network, card, scoring

    def __call__(self, clips: Tensor) -> tuple[Tensor, Tensor | None]:
        """(batch, channels, time, height, width) -> (batch, classes), (batch, features) or None.

        A network for images is applied to every frame; its outputs are averaged over the clip.
        """
        batch = clips.shape[0]
        if self.scoring.frame_order != "given":
            clips = torch.stack([reordered(clip, self.scoring.frame_order) for clip in clips])
        images = self.card.ndim == 2
        signal = fold_time(clips) if images else clips
        signal = self.card.preprocessing.normalize(signal)  # (batch [· time], channels, *axes)
        with torch.inference_mode(), self._autocast(clips.device.type):
            logits, embeddings = self._logits_and_embeddings(signal)
        if images:
            logits = logits.view(batch, -1, logits.shape[-1]).mean(1)
        if images and embeddings is not None:
            embeddings = embeddings.view(batch, -1, embeddings.shape[-1]).mean(1)
        return logits, embeddings

    def _autocast(self, device: str) -> AbstractContextManager[object]:
        dtype = AUTOCAST.get(self.scoring.precision)
        return torch.autocast(device, dtype=dtype, enabled=dtype is not None)

    def _logits_and_embeddings(self, signal: Tensor) -> tuple[Tensor, Tensor | None]:
        """One forward pass for both if the head takes one vector per clip, else one pass each."""
        if not self.scoring.embeddings:
            return self.network(signal).float(), None
        network: Any = self.network
        seen: list[Tensor] = []
        with network.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
            logits = network(signal)
        one_vector_each = len(seen) == 1 and seen[0].ndim == 2 and len(seen[0]) == len(signal)
        embeddings = seen[0] if one_vector_each else network.embed(signal)
        return logits.float(), embeddings.float()


def reordered(clip: Tensor, order: Literal["shuffled", "reversed"]) -> Tensor:
    """A uint8 clip (channels, time, height, width) with its frames in another order.

    The permutation is drawn with a seed computed from the pixels, so that it differs from clip to
    clip and not from run to run.
    """
    steps = clip.shape[1]
    if order == "reversed":
        return clip.flip(1)
    generator = torch.Generator().manual_seed(int(clip.sum(dtype=torch.int64)))
    return clip[:, torch.randperm(steps, generator=generator).to(clip.device)]
