"""What learns: a network, its optimiser, the average of its weights, over all processes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn

from pretrained_2d.averaging import average_weights
from pretrained_2d.optim import ParameterGroup, build_optimizer
from pretrained_2d.recipe import Recipe


class Learner:
    """Holds everything that a step changes."""

    def __init__(
        self,
        model: nn.Module,
        groups: Sequence[ParameterGroup],
        recipe: Recipe,
        accelerator: Accelerator,
    ) -> None:
        self.model, self.groups, self.accelerator = model, groups, accelerator
        self.limit = math.inf if recipe.clip_grad_norm is None else recipe.clip_grad_norm
        model.to(accelerator.device)
        self.ema = average_weights(model, recipe.ema_decay) if recipe.ema_decay else None
        if recipe.compile:
            model.compile()
        self.wrapped, self.optimizer = accelerator.prepare(model, build_optimizer(groups, recipe))

    @property
    def kept(self) -> nn.Module:
        """What is evaluated and kept: the average of the weights, where there is one."""
        return self.model if self.ema is None else self.ema.module

    @property
    def networks(self) -> list[nn.Module]:
        """The network that is trained, and its average."""
        return [self.model] if self.ema is None else [self.model, self.ema.module]

    def update(self, factor: float, step: int) -> Tensor:
        """Change the weights by the gathered gradient at `factor` of the peak rates; its norm."""
        for settings, group in zip(self.optimizer.param_groups, self.groups, strict=True):
            settings["lr"] = group.lr * factor
        norm: Tensor = self.accelerator.clip_grad_norm_(
            [parameter for group in self.groups for parameter in group.parameters], self.limit
        )
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.ema.update(self.model, step=step + 1)
        return norm

    def state(self) -> dict[str, Any]:
        """Weights, optimiser, average and scaler."""
        scaler = self.accelerator.scaler
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.module.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.ema is not None:
            self.ema.module.load_state_dict(state["ema"])
        if self.accelerator.scaler is not None and state["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])

    def release(self) -> None:
        """Give the network back as it was: Accelerate wraps `forward` for mixed precision."""
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        self.model.eval()
