"""The learning rate as a function of the step alone: nothing to save, nothing to restore."""

import math

from pretrained_2d.recipe import Recipe


def learning_rate_factor(
    step: int, *, recipe: Recipe, steps_per_epoch: int, phase_epochs: int, total_epochs: int
) -> float:
    """What every group's peak learning rate is multiplied by at `step` of a phase, counted from 0.

    Each phase warms up and decays anew. A length given in steps is meant for all epochs, so a phase
    takes its share of it: 100000 steps over 100 epochs are 80000 in a phase of 80.
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
