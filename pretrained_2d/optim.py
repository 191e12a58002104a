"""Which parameters learn how fast, and which decay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import AdamW

from pretrained_2d.recipe import Recipe
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

    `scale` maps a parameter's name to a factor of its learning rate: layer-wise rates, and with 0 a
    frozen parameter, which then gets no gradient either.
    """
    state_space = {id(parameter) for parameter in state_space_parameters(model)}
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
            kind = "weights" if parameter.ndim > 1 else "undecayed"
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


def build_optimizer(groups: Sequence[ParameterGroup], recipe: Recipe) -> AdamW:
    """AdamW over the groups, in their order."""
    return AdamW(
        [
            {"params": list(group.parameters), "lr": group.lr, "weight_decay": group.weight_decay}
            for group in groups
        ],
        betas=recipe.betas,
        fused=True,  # a third of the time of the loop over parameters, on a CPU too
    )
