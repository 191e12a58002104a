"""A small training run for tests: coloured noise, a network with dropout, norms and buffers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.randomness import Sample, seeded
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.train import Phase, TrainingResult, train

LABELS = ("red", "green", "blue")
CARD = ModelCard(architecture="toy", labels=LABELS)


@dataclass(frozen=True)
class Colours:
    """Images whose strongest channel is their class, with noise that differs by drawing."""

    count: int = 40

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, sample: Sample) -> tuple[Tensor, int]:
        label = sample.item % 3
        with seeded(0, "toy", *sample):
            pixels = torch.randint(0, 200, (3, 6, 6))
        pixels[label] += 55
        return pixels.to(torch.uint8), label


def normalize(pixels: Tensor) -> Tensor:
    return pixels.float() / 128 - 1


def network(*, dropout: float = 0.2, batch_norm: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8) if batch_norm else nn.GroupNorm(1, 8),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def evaluate(model: nn.Module) -> dict[str, float]:
    """Metrics that are deterministic and depend on the weights."""
    data = Colours(12)
    with torch.no_grad():
        logits = model(normalize(torch.stack([data[Sample(item, 999)][0] for item in range(12)])))
    targets = torch.arange(12) % 3
    return {
        "accuracy": float((logits.argmax(1) == targets).float().mean()),
        "loss": float(nn.functional.cross_entropy(logits, targets)),
    }


FULL = {
    "epochs": 4,
    "batch_size": 8,
    "accumulation": 2,
    "lr": 0.01,
    "warmup_steps": 3,
    "clip_grad_norm": 1.0,
    "ema_decay": 0.9,
    "mixup": 0.8,
    "cutmix": 1.0,
    "label_smoothing": 0.1,
    "repeats": 2,
    "checkpoint_every_steps": 2,
    "log_every_steps": 3,
    "workers": 0,
}


def run(out: Path, model: nn.Module | None = None, **settings: Any) -> TrainingResult:
    """Train in two phases, by default with every feature switched on."""
    extra = {key: settings.pop(key) for key in ("data", "monitor", "evaluate") if key in settings}
    recipe = Recipe(**{**FULL, **settings})
    data = extra.get("data", Colours())
    first = Phase(data=data, epochs=recipe.epochs - 1, normalize=normalize)
    second = Phase(data=data, epochs=1, normalize=normalize)
    return train(
        model or network(),
        [first, second],
        recipe=recipe,
        card=CARD,
        out=out,
        evaluate=extra.get("evaluate", evaluate),
        monitor=extra.get("monitor", ("accuracy", "loss")),
    )
