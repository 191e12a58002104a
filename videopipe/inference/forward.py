"""One pass of a network over clips, as its card wants them."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.card import ModelCard
from pretrained_2d.convolution import fold_time
from videopipe.inference.settings import Scoring

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Forward:
    """A network and its card: uint8 clips in, logits and perhaps embeddings out."""

    def __init__(self, network: nn.Module, card: ModelCard, scoring: Scoring) -> None:
        self.network, self.card, self.scoring = network, card, scoring

    def __call__(self, clips: Tensor) -> tuple[Tensor, Tensor | None]:
        """(batch, channels, time, height, width) -> (batch, classes), (batch, features) or None.

        A network for images sees every frame, and its answers are averaged over the clip.
        """
        batch = clips.shape[0]
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
        """One pass for both where the classifier sees plain vectors, else one for each."""
        if not self.scoring.embeddings:
            return self.network(signal).float(), None
        network: Any = self.network
        seen: list[Tensor] = []
        with network.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
            logits = network(signal)
        one_vector_each = len(seen) == 1 and seen[0].ndim == 2 and len(seen[0]) == len(signal)
        embeddings = seen[0] if one_vector_each else network.embed(signal)
        return logits.float(), embeddings.float()
