"""Mixing time with one kernel per layer or per channel, as a small matrix over the steps.

A clip is short (tens of steps), so a convolution along time with any padding is one product with a
(steps × steps) matrix: a single pass over the signal, whatever the length of the kernel.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from s4nd.cache import may_keep, saved_tensor_hooks
from s4nd.kernels.kernel_sampling import KernelRequest, sample
from s4nd.layer import without_autocast
from s4nd.together import launches_are_slow
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.folding.stream_states import finite_response
from videopipe.inflation.mixing.folding.time_product import multiply
from videopipe.inflation.mixing.state_space import StateSpaceKernel
from videopipe.inflation.options import Padding


class TapKernel(nn.Module):
    """A learned kernel of a few taps: (channels, length), or (1, length) for the whole layer.

    The middle tap is at lag 0; the last one in a causal kernel, which covers past steps only.
    """

    def __init__(self, taps: Tensor, *, causal: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(taps)
        self.causal = causal

    def forward(self, steps: int, rate: float) -> Tensor:
        """The kernel, which depends neither on the number of steps nor on the rate."""
        del steps, rate
        zeros = self.weight.shape[1] - 1 if self.causal else 0
        return functional.pad(self.weight, (0, zeros)) if zeros else self.weight

    def next_step(
        self, signal: Tensor, state: Tensor | None, rate: float, padding: Padding
    ) -> tuple[Tensor, Tensor]:
        """One step of a stream; the state holds what earlier steps add to later outputs."""
        del rate
        taps = self.weight.flip(1).to(signal.dtype).unbind(1)  # from lag 0 up
        return finite_response([tap * signal for tap in taps], state, padding)


def time_matrix(kernel: Tensor, steps: int, padding: Padding) -> Tensor:
    """(channels, taps) -> (channels, steps, steps); row t has the weights of step t.

    Tap j reaches step t + j - (taps - 1) // 2. Beyond the ends the end frame is repeated
    (replicate), or frames are zero (zeros).
    """
    taps = kernel.shape[-1]
    here = torch.arange(steps, device=kernel.device)
    reached = here + torch.arange(taps, device=kernel.device)[:, None] - (taps - 1) // 2
    if padding == "replicate":
        reached = reached.clamp(0, steps - 1)
    placed = (reached[:, :, None] == here).to(kernel.dtype)  # (taps, steps, steps)
    return (kernel @ placed.flatten(1)).view(-1, steps, steps)


class ReadyMatrix(NamedTuple):
    """A matrix made beforehand, for one number of steps, one rate and one set of autograd hooks."""

    steps: int
    rate: float
    hooks: object
    matrix: Tensor


class TimeMixing(nn.Module):
    """Convolves folded frames along time with the kernel of `kernel(steps, rate)`.

    The kernel module returns (channels or 1, taps), its middle tap at lag 0. `channel_dim` is where
    the channels of a folded tensor lie: 1 for feature maps, -1 for tokens.
    """

    def __init__(
        self,
        kernel: TapKernel | StateSpaceKernel,
        batch: FoldedBatch,
        *,
        channel_dim: int = 1,
        padding: Padding = "replicate",
        reduction: int = 1,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.batch = batch
        self.channel_dim = channel_dim
        self.padding: Padding = padding
        self.reduction = reduction
        self._made: tuple[object, Tensor] | None = None  # the last matrix, in evaluation
        self.given: ReadyMatrix | None = None  # by `matrices_together`, during one forward pass

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps × parts, *rest) -> the same shape."""
        if self.batch.streaming is not None:
            return self.batch.streaming.advance(self, partial(self._next_step, folded))
        matrix = self._matrix(self.batch.steps // self.reduction).to(folded.dtype)
        return multiply(matrix, folded, self.batch.clips, self.channel_dim)

    def _next_step(self, folded: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        signal = folded.movedim(self.channel_dim, -1)
        output, state = self.kernel.next_step(signal, state, self.batch.rate, self.padding)
        return output.movedim(-1, self.channel_dim), state

    def _matrix(self, steps: int) -> Tensor:
        """(channels or 1, steps, steps); in evaluation made once, until a parameter changes."""
        given = self.given
        if given is not None and given[:3] == (steps, self.batch.rate, saved_tensor_hooks()):
            return given.matrix
        parameters = tuple(self.kernel.parameters())
        if self._makes_anew():
            return self._make_matrix(steps)
        if any(parameter.is_inference() for parameter in parameters):
            return self._make_matrix(steps)
        versions = [(parameter.data_ptr(), parameter._version) for parameter in parameters]
        key = (steps, self.batch.rate, versions, parameters[0].device)
        if self._made is None or self._made[0] != key:
            self._made = key, self._make_matrix(steps)
        return self._made[1]

    def _makes_anew(self) -> bool:
        return self.training or torch.is_grad_enabled() or not may_keep()

    def wanted(self) -> KernelRequest | None:
        """What `sample` must be asked for before the next call; None if it cannot make it."""
        if not isinstance(self.kernel, StateSpaceKernel) or not self._makes_anew():
            return None
        steps = self.batch.steps // self.reduction
        return self.kernel.wanted(steps, self.batch.rate) if steps > 0 else None

    def _make_matrix(self, steps: int) -> Tensor:
        with without_autocast(next(self.kernel.parameters()).device.type):
            return time_matrix(self.kernel(steps, self.batch.rate), steps, self.padding)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_made": None, "given": None}

    def extra_repr(self) -> str:
        """Shown by print(network)."""
        return f"padding={self.padding}, channel_dim={self.channel_dim}"


@contextmanager
def matrices_together(layers: Sequence[TimeMixing], *, on_cpu: bool = False) -> Iterator[None]:
    """Make the matrices that the state-space layers of a network need inside, and hand them over.

    As `s4nd.sampled_together`: on a device, and while a network is compiled, launching the small
    operations of each layer takes longer than computing them. `on_cpu` does it on a CPU too.
    """
    asked = [(layer, layer.wanted()) for layer in layers] if layers else []
    ready = [(layer, wanted) for layer, wanted in asked if wanted is not None]
    if ready and (on_cpu or launches_are_slow(ready[0][1].space.C)):
        with without_autocast(ready[0][1].space.C.device.type):
            matrices = sample([wanted for _, wanted in ready])
        hooks = saved_tensor_hooks()
        for (layer, wanted), matrix in zip(ready, matrices, strict=True):
            assert wanted.size is not None
            layer.given = ReadyMatrix(wanted.size, layer.batch.rate, hooks, matrix[0])
    try:
        yield
    finally:
        for layer, _ in ready:
            layer.given = None
