"""Parameter groups (learning rates, weight decay), optimisers and the learning-rate schedule."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

from pretrained_2d.errors import TrainingError, did_you_mean
from pretrained_2d.training.recipe import Recipe
from s4nd import state_space_parameters


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a peak learning rate and a weight decay."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    lr: float
    weight_decay: float


def parameter_groups(
    model: nn.Module, recipe: Recipe, *, scale: Callable[[str], float] = lambda _: 1.0
) -> list[ParameterGroup]:
    """Weights decay; biases, norms and state spaces do not; state spaces have their own rate.

    Neither do parameters that a module names in `no_weight_decay()`, as timm's networks and our ViT
    do for position tables and class tokens.
    `scale` maps a parameter's name to a factor of its learning rate: layer-wise rates, and with 0 a
    frozen parameter, which then gets no gradient either.
    """
    state_space = {id(parameter) for parameter in state_space_parameters(model)}
    exempt = undecayed_names(model)
    state_space_lr = recipe.lr if recipe.state_space_lr is None else recipe.state_space_lr
    members: dict[tuple[str, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        factor = scale(name)
        if factor == 0:
            parameter.requires_grad_(False)
        if not parameter.requires_grad:
            continue
        if id(parameter) in state_space:
            kind = "state_space"
        else:
            decays = parameter.ndim > 1 and name not in exempt
            kind = "weights" if decays else "undecayed"
        members.setdefault((kind, factor), []).append(parameter)
    return [
        ParameterGroup(
            name=kind if factor == 1 else f"{kind}×{factor:.3g}",
            parameters=tuple(parameters),
            lr=factor * (state_space_lr if kind == "state_space" else recipe.lr),
            weight_decay=recipe.weight_decay if kind == "weights" else 0.0,
        )
        for (kind, factor), parameters in members.items()
    ]


def undecayed_names(model: nn.Module) -> set[str]:
    """Names of the parameters that a module inside asks not to decay, by `no_weight_decay()`."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if callable(getattr(module, "no_weight_decay", None))
        for name in module.no_weight_decay()
    }


def build_optimizer(groups: Sequence[ParameterGroup], recipe: Recipe) -> Optimizer:
    """AdamW, or the recipe's optimiser of timm, over the groups in their order.

    Raises TrainingError for a name that timm does not have or an optimiser that needs the loss.
    """
    settings: list[dict[str, Any]] = [
        {"params": list(group.parameters), "lr": group.lr, "weight_decay": group.weight_decay}
        for group in groups
    ]
    if recipe.optimiser == "adamw":
        # Fused takes a third of the time of the loop over parameters, on a CPU too.
        return AdamW(settings, betas=recipe.betas, fused=True)
    from timm.optim._optim_factory import (
        create_optimizer_v2,
        get_optimizer_info,
        list_optimizers,
    )

    names = [str(name) for name in list_optimizers()]
    if recipe.optimiser not in names:
        hint = did_you_mean(recipe.optimiser, names, most=3, cutoff=0.6)
        raise TrainingError(
            f"optimiser is {recipe.optimiser}, expected adamw or one of timm's{hint}; "
            "timm.optim.list_optimizers() lists them"
        )
    about = get_optimizer_info(recipe.optimiser)
    if about.second_order:
        raise TrainingError(
            f"optimiser {recipe.optimiser} needs second derivatives; use one that does not, "
            "such as lamb"
        )
    options: dict[str, Any] = (
        {"betas": recipe.betas} if about.has_betas and about.num_betas == 2 else {}
    )
    optimizer: Optimizer = create_optimizer_v2(
        settings, opt=recipe.optimiser, lr=recipe.lr, weight_decay=recipe.weight_decay, **options
    )
    return optimizer


def learning_rate_factor(
    step: int, *, recipe: Recipe, steps_per_epoch: int, phase_epochs: int, total_epochs: int
) -> float:
    """The factor of every group's peak learning rate at `step` of a phase, counted from 0.

    It depends on the step alone, so there is nothing to save. Each phase has its own warm-up and
    decay. A length given in steps covers all epochs, and a phase takes its share of it: 100000
    steps over 100 epochs are 80000 in a phase of 80.
    """
    warmup = recipe.warmup_steps or round(recipe.warmup_epochs * steps_per_epoch)
    if step < warmup:
        start = recipe.warmup_lr / recipe.lr
        return start + (1 - start) * (step + 1) / (warmup + 1)
    if recipe.schedule == "constant":
        return 1.0
    length = phase_epochs * steps_per_epoch
    if recipe.schedule_steps is not None:
        length = round(recipe.schedule_steps * phase_epochs / total_epochs)
    progress = min(1.0, (step - warmup) / max(1, length - warmup))
    floor = recipe.min_lr / recipe.lr
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))
