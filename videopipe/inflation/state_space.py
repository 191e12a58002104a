"""A state-space kernel along time, as long as the clip: the time axis of S4ND behind a 2D layer."""

from torch import Tensor, nn

from s4nd.axis import AxisConfig, AxisStateSpace
from videopipe.inflation.options import InflationOptions


class StateSpaceKernel(nn.Module):
    """The kernel of one S4ND axis, sampled for as many steps as a clip has."""

    def __init__(self, axis: AxisStateSpace) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, steps: int, rate: float) -> Tensor:
        """(channels, 2 × length), the tap of lag 0 just before the middle.

        The kernel never outlasts the clip, nor the base grid: a longer clip sees it end.
        """
        length = min(steps, max(1, round(self.axis.config.size / rate)))
        return self.axis.taps(length, rate)[0].flip(-1)  # from lag length - 1 down to -length


def time_axis(options: InflationOptions, size: int, channels: int) -> AxisConfig:
    """The axis that the options describe, for a layer of `channels` on a grid of `size` steps."""
    return AxisConfig(
        size,
        state=options.state,
        basis=options.basis,
        bidirectional=options.bidirectional,
        length=options.length,
        copies=channels if options.copies is None else options.copies,
        start=options.start,
    )


def state_space_kernel(channels: int, reduction: int, options: InflationOptions) -> nn.Module:
    """A fresh kernel for a layer behind which time has been halved `reduction` fold.

    Raises ValueError when the number of copies does not divide the channels.
    """
    config = time_axis(options, max(1, options.num_steps // reduction), channels)
    return StateSpaceKernel(AxisStateSpace(config, channels))
