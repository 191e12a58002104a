"""Mixup and CutMix on the device, for images and clips, by timm."""

from timm.data.mixup import Mixup
from torch import Tensor

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.errors import TrainingError
from pretrained_2d.randomness import seeded
from pretrained_2d.training.batches import Shares
from pretrained_2d.training.recipe import Recipe


class BatchMixing:
    """Mixes sample i of n with sample n − 1 − i; random numbers depend on (seed, step) only."""

    def __init__(self, recipe: Recipe, card: ModelCard, shares: Shares) -> None:
        if card.labels is None:
            raise TrainingError(
                "mixup and cutmix mix classes, but the model card names no labels; give labels,"
                " or set mixup: 0 and cutmix: 0"
            )
        self._seed, self._drop_last = recipe.seed, recipe.drop_last
        self._parts = shares.processes * shares.accumulation
        self._mix = Mixup(  # type: ignore[no-untyped-call]
            mixup_alpha=recipe.mixup,
            cutmix_alpha=recipe.cutmix,
            prob=recipe.mix_probability,
            label_smoothing=0.0,  # the objective applies label smoothing
            num_classes=len(card.labels),
        )

    def require_even_parts(self, batch_size: int) -> None:
        """Samples are mixed in pairs, so every part of every batch must be even."""
        if batch_size % (2 * self._parts) or not self._drop_last:
            raise TrainingError(
                f"batch_size is {batch_size}; with mixup or cutmix it must be a multiple of"
                f" {2 * self._parts} (pairs × processes × accumulation), and drop_last true"
            )

    def __call__(self, signal: Tensor, targets: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """(batch, channels, *axes), (batch,) -> the mixed signal, targets (batch, classes)."""
        # timm cuts its box from the third and fourth axis. Time is folded into the channels, so
        # that all frames of a clip get the same box.
        flat = signal.flatten(1, -3)  # (batch, channels · time, height, width)
        with seeded(self._seed, "mix", step):
            flat, targets = self._mix(flat, targets)
        return flat.view(signal.shape), targets
