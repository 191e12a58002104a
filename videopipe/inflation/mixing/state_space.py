"""A state-space kernel along time, as long as the clip: the time axis of S4ND after a 2D layer."""

from torch import Tensor, nn
from torch.nn import functional

from s4nd.axis import AxisConfig, AxisStateSpace
from s4nd.kernels.kernel_sampling import KernelRequest
from s4nd.recurrence import endless_taps, recurrence, why_no_recurrence
from videopipe.inflation.options import InflationOptions, Padding


class StateSpaceKernel(nn.Module):
    """The kernel of one S4ND axis, sampled for as many steps as a clip has.

    endless: a causal kernel is longer than the base grid, and the first frame is repeated
    infinitely often before the clip. The output of a step then does not depend on the number of
    later steps, and a recurrence computes the same.
    """

    def __init__(self, axis: AxisStateSpace, *, endless: bool = False) -> None:
        super().__init__()
        self.axis = axis
        self.endless = endless

    def forward(self, steps: int, rate: float) -> Tensor:
        """(channels, 2 × length), the tap of lag 0 just before the middle.

        Unless it is endless, the kernel is no longer than the clip and the base grid.
        """
        if self.endless:
            return functional.pad(endless_taps(self.axis, steps, rate).flip(-1), (0, steps + 1))
        taps = self.axis.taps(self._length(steps, rate), rate)[0]
        return taps.flip(-1)  # from lag length - 1 down to -length

    def _length(self, steps: int, rate: float) -> int:
        return min(steps, max(1, round(self.axis.config.size / rate)))

    def wanted(self, steps: int, rate: float) -> KernelRequest | None:
        """The matrix over `steps` steps, to be sampled together with those of other layers.

        None for kernels without an end, for those of the compiled form and for sharded parameters.
        """
        if self.endless or self.axis.is_compiled or hasattr(self.axis.C, "placements"):
            return None
        return KernelRequest(self.axis, self._length(steps, rate), rate, steps)

    def next_step(
        self, signal: Tensor, state: Tensor | None, rate: float, padding: Padding
    ) -> tuple[Tensor, Tensor]:
        """One step of a stream; the state is that of the state space."""
        system, wide = recurrence(self.axis, rate), signal.float()
        if state is None:
            state = system.start(wide, repeats=padding == "replicate")
        output, state = system.step(state, wide)
        return output.to(signal.dtype), state


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
        padding=options.padding,
    )


def state_space_kernel(
    channels: int, reduction: int, options: InflationOptions, *, endless: bool = True
) -> StateSpaceKernel:
    """A new kernel for a layer on a time grid that temporal pooling has divided by `reduction`.

    endless: where the options allow a recurrence, the kernel has no end.
    Raises ValueError when the number of copies does not divide the channels.
    """
    config = time_axis(options, max(1, options.num_steps // reduction), channels)
    endless = endless and why_no_recurrence(config) is None
    return StateSpaceKernel(AxisStateSpace(config, channels), endless=endless)
