"""A second, independent pretraining in plain PyTorch, and the small problem for both.

`plain_training` shares no code with `pretrained_2d.training`: only the networks, the splitting of
one seed into many and the order of samples (one permutation an epoch) are the same.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pretrained_2d import build
from pretrained_2d.images.items import ImageListing
from pretrained_2d.pretrain_config import PhaseConfig, PretrainConfig
from pretrained_2d.randomness import derive_seed, seeded
from pretrained_2d.training.recipe import Recipe

BASE, CLASSES, MEAN, STD = 16, 3, 0.5, 0.25
NETWORK = {
    "depth": 2, "width": 8, "num_classes": CLASSES, "image_size": BASE, "dropout": 0.0,
}  # fmt: skip
STATE_SPACE = ("log_dt", "A_real", "A_imag", "B", "P")  # C and D are trained like weights
AXIS = {"state": 8, "basis": "legs", "dt_min": 0.1, "dt_max": 1.0}
RECIPE = {
    "epochs": 4, "batch_size": 8, "accumulation": 2, "lr": 0.02, "state_space_lr": 0.005,
    "weight_decay": 0.5, "betas": (0.8, 0.95), "warmup_steps": 2, "warmup_lr": 0.004,
    "min_lr": 0.002, "clip_grad_norm": 0.3, "ema_decay": 0.7, "label_smoothing": 0.2, "mixup": 0.8,
    "seed": 3, "log_every_steps": 1, "checkpoint_every_steps": 2, "workers": 0,
}  # fmt: skip
PHASES = (PhaseConfig(epochs=2, size=8, bandlimit=0.2), PhaseConfig(epochs=2, bandlimit=0.4))


@dataclass(frozen=True)
class Pictures:
    """Images in memory, as `ImageItems`."""

    pixels: Tensor  # uint8 (images, 3, 16, 16)
    targets: Tensor

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, index: int) -> Tensor:
        return self.pixels[index]

    def target(self, index: int) -> Tensor:
        return self.targets[index]

    def name(self, index: int) -> str:
        return str(index)

    def select(self, indices: Any) -> "Pictures":
        return Pictures(self.pixels[indices], self.targets[indices])


def pictures(count: int, seed: int) -> Pictures:
    """Noise whose strongest channel is its class."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(count) % CLASSES
    pixels = torch.randint(0, 180, (count, 3, BASE, BASE), generator=generator)
    pixels[torch.arange(count), targets] += 75
    return Pictures(pixels.to(torch.uint8), targets)


def problem(recipe: dict[str, Any] | None = None, **changes: Any) -> tuple[Any, ...]:
    """The arguments of `pretrain`: configuration, listing, splits."""
    splits = {"train": pictures(24, 0), "val": pictures(9, 1)}
    settings = {
        "architecture": "isotropic", "image_size": BASE, "test_sizes": (8,), "phases": PHASES,
        "options": {**NETWORK, "axis": AXIS}, "mean": (MEAN,) * 3, "std": (STD,) * 3,
        "recipe": Recipe(**{**RECIPE, **(recipe or {})}),
    }  # fmt: skip
    config = PretrainConfig(**{**settings, **changes})
    return config, ImageListing("pictures", ("r", "g", "b"), splits), splits


def plain_training(config: PretrainConfig, splits: dict[str, Pictures]) -> dict[str, Any]:
    """Loss and gradient norm of every step, evaluation of every epoch, the average at the end."""
    recipe, images = config.recipe, splits["train"]
    torch.manual_seed(derive_seed(recipe.seed, "weights"))
    model = build("isotropic", **NETWORK, axis=AXIS)
    average = build("isotropic", **NETWORK, axis=AXIS)
    named = [(name.rpartition(".")[2] in STATE_SPACE, p) for name, p in model.named_parameters()]
    state_space, others = [p for is_ours, p in named if is_ours], [p for o, p in named if not o]
    groups = [([p for p in others if p.ndim > 1], recipe.lr, recipe.weight_decay),
              ([p for p in others if p.ndim <= 1], recipe.lr, 0.0),
              (state_space, recipe.state_space_lr, 0.0)]  # fmt: skip
    optimizer = torch.optim.AdamW(
        [{"params": p, "lr": lr, "weight_decay": decay} for p, lr, decay in groups],
        betas=recipe.betas, foreach=False, fused=False,
    )  # fmt: skip
    steps = len(images) / recipe.batch_size
    steps = math.floor(steps) if recipe.drop_last else math.ceil(steps)
    size = config.train_size or BASE
    phases = config.phases or [PhaseConfig(epochs=recipe.epochs, size=size)]
    losses, norms, evaluations, step, epoch = [], [], [], 0, 0
    for phase in phases:
        size, length = phase.size or BASE, phase.epochs * steps
        model, average = (with_bandlimit(n, phase.bandlimit) for n in (model, average))
        for local in range(length):
            if local < recipe.warmup_steps:
                part = (local + 1) / (recipe.warmup_steps + 1)
                lr = recipe.warmup_lr + (recipe.lr - recipe.warmup_lr) * part
            else:
                angle = math.pi * (local - recipe.warmup_steps) / (length - recipe.warmup_steps)
                lr = recipe.min_lr + (recipe.lr - recipe.min_lr) * (1 + math.cos(angle)) / 2
            for group, (_, peak, _) in zip(optimizer.param_groups, groups, strict=True):
                group["lr"] = peak * lr / recipe.lr
            generator = np.random.default_rng(derive_seed(recipe.seed, "order", epoch))
            first = local % steps * recipe.batch_size
            batch = generator.permutation(len(images))[first : first + recipe.batch_size]
            signal = shown(images.pixels[batch], size)
            shares = functional.one_hot(images.targets[batch], CLASSES).float()
            if recipe.mixup:
                with seeded(recipe.seed, "mix", step):
                    np.random.rand()  # whether to mix at all
                    weight = np.random.beta(recipe.mixup, recipe.mixup)
                signal = weight * signal + (1 - weight) * signal.flip(0)
                shares = weight * shares + (1 - weight) * shares.flip(0)
            shares = shares * (1 - recipe.label_smoothing) + recipe.label_smoothing / CLASSES
            loss = -(shares * model(signal, BASE / size).log_softmax(1)).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_grad_norm)
            optimizer.step()
            step, epoch = step + 1, epoch + ((local + 1) % steps == 0)
            decay = min(recipe.ema_decay or 0.0, 1 - 1 / step)
            with torch.no_grad():
                for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                    kept.copy_(decay * kept + (1 - decay) * new)
            losses.append(loss.item())
            norms.append(norm.item())
            if (local + 1) % steps == 0:
                evaluations.append(evaluation(average, splits["val"]))
    return {"losses": losses, "norms": norms, "evaluations": evaluations, "average": average}


def with_bandlimit(network: Any, bandlimit: float | None) -> Any:
    """A new network with this bandlimit that shares the parameters, which the optimiser holds."""
    fresh = build("isotropic", **NETWORK, axis={**AXIS, "bandlimit": bandlimit})
    for name, parameter in list(network.named_parameters()):
        owner, _, last = name.rpartition(".")
        setattr(fresh.get_submodule(owner), last, parameter)
    return fresh


def shown(pixels: Tensor, size: int) -> Tensor:
    signal = (pixels.float() / 255 - MEAN) / STD
    return functional.interpolate(signal, (size, size), mode="bilinear", antialias=True)


@torch.no_grad()
def evaluation(network: Any, images: Pictures) -> dict[str, float]:
    numbers = {}
    for size in (8, BASE):
        logits = network.eval()(shown(images.pixels, size), BASE / size)
        numbers[f"loss@{size}"] = functional.cross_entropy(logits, images.targets).item()
        hits = (logits.argmax(1) == images.targets).float().mean()
        numbers[f"accuracy@{size}"] = hits.item()
    network.train()
    return numbers
