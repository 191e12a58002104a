"""The exponential moving average of the weights, by timm."""

from timm.utils.model_ema import ModelEmaV3
from torch import nn


def average_weights(model: nn.Module, decay: float) -> ModelEmaV3:
    """An average that starts as the plain mean and becomes exponential after 1 / (1 − decay) steps.

    With a fixed decay from the start, random weights would weigh in for tens of thousands of steps.
    """
    return ModelEmaV3(model, decay=decay, use_warmup=True, warmup_gamma=1.0, warmup_power=1.0)
