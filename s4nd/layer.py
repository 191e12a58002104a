"""The S4ND layer: an N-D convolution whose kernel is an outer product of state space kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from s4nd import compiled, conv
from s4nd.axis import AxisConfig, AxisStateSpace, check_bandlimit
from s4nd.cache import KernelCache, saved_tensor_hooks
from s4nd.engines.engine_choice import takes_matmul
from s4nd.kernels.kernel_sampling import KernelRequest, sample

Engine = Literal["auto", "matmul", "fft"]
Rate = float | Sequence[float]
ENGINES = ("auto", "matmul", "fft")


class ReadyKernels(NamedTuple):
    """Kernels generated for a call before the call, by `s4nd.together`."""

    key: object  # shape, rates, engine
    hooks: object  # saved-tensor hooks of autograd that were active when they were generated
    operators: list[Tensor]


class S4ND(nn.Module):
    """y = K * u + D u with K the sum over `rank` of outer products of one kernel per axis.

    channels: of the signal. axes: one AxisConfig per axis, in tensor order; 3D is (time, height,
    width). Depthwise by default, with `multiplier` kernels per channel; with `out_channels` every
    output mixes all channels, and D adds the same weighted sum of them to each.
    engine: `matmul` (Toeplitz products), `fft`, or `auto`, which chooses by shape: by a rule on
    CPUs, by a measurement on other devices (`s4nd.engines.engine_measurement`).

    A signal longer than an axis's `size` (in base samples) gets a kernel of `size`.
    """

    def __init__(
        self,
        channels: int,
        axes: Sequence[AxisConfig],
        *,
        rank: int = 1,
        engine: Engine = "auto",
        out_channels: int | None = None,
        multiplier: int = 1,
    ) -> None:
        super().__init__()
        for name, value in (("channels", channels), ("rank", rank), ("multiplier", multiplier)):
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        if out_channels is not None and (out_channels < 1 or multiplier != 1):
            raise ValueError(
                f"out_channels must be None, or 1 or more with a multiplier of 1; "
                f"got {out_channels} and {multiplier}"
            )
        if not axes or not all(isinstance(axis, AxisConfig) for axis in axes):
            raise TypeError(f"axes must be a sequence of AxisConfig, one per axis, got {axes!r}")
        if engine not in ENGINES:
            raise ValueError(f"unknown engine {engine!r}; choose one of {', '.join(ENGINES)}")
        self.channels, self.rank, self.engine = channels, rank, engine
        self.out_channels, self.multiplier = out_channels, multiplier
        self.axes = tuple(axes)
        self.mixing = conv.Mixing(out_channels or multiplier, rank, out_channels is not None)
        outputs = rank * self.mixing.groups
        self.spaces = nn.ModuleList(AxisStateSpace(axis, channels, outputs) for axis in axes)
        self.D = nn.Parameter(torch.empty(multiplier, channels))
        self._cache = KernelCache()
        self.given: ReadyKernels | None = None  # by `s4nd.together`, during one forward pass
        self.reset_skip()

    @torch.no_grad()
    def reset_skip(self) -> None:
        """Draw D; zero in a dense layer, where D would add the same signal to all outputs."""
        if self.out_channels is None:
            self.D.normal_()
        else:
            self.D.zero_()

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, channels, *axes) -> the same shape; rate = base samples per sample, per axis."""
        rates = self._rates(rate)
        self._check(signal)
        dtype, device = signal.dtype, signal.device.type
        if _has_autocast(device) and torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        shape = tuple(signal.shape[2:])
        engine = self.choose_engine(shape, rates)
        operators = self._operators(shape, rates, engine)
        if engine == "matmul":
            operators = [matrix.to(dtype) for matrix in operators]
            return conv.convolve_matmul(signal.to(dtype), operators, self.D.to(dtype), self.mixing)
        wide = torch.promote_types(dtype, torch.float32)
        with without_autocast(device):
            skip, repeats = self.D.to(wide), [axis.padding == "replicate" for axis in self.axes]
            y = conv.convolve_fft(signal.to(wide), operators, skip, self.mixing, repeats)
        return y.to(dtype)

    def kernel(self, shape: Sequence[int], rate: Rate = 1.0) -> Tensor:
        """The N-D kernel a signal with these axes is convolved with, without the skip D.

        (multiplier * channels, *lags), or (out_channels, channels, *lags) for a dense layer. An
        axis of n samples has the lags -(n - 1) ... n - 1, lag 0 in the middle; a one-sided axis
        0 ... n - 1.
        """
        sizes = tuple(int(n) for n in shape)
        self._check_sizes(sizes, f"shape {sizes}")
        windows = []
        for axis, size, taps in zip(self.axes, sizes, self.taps(sizes, rate), strict=True):
            window = conv.lag_window(taps, size)
            windows.append(window if axis.bidirectional else window[..., size - 1 :])
        kernel = conv.separable_kernel(windows, self.mixing)
        return kernel if self.out_channels is not None else kernel.flatten(0, 1)

    @property
    def bandlimit(self) -> tuple[float | None, ...]:
        """The bandlimit in force on each axis; assign a number, None, or one value per axis."""
        return tuple(space.bandlimit for space in self._spaces())

    @bandlimit.setter
    def bandlimit(self, value: float | Sequence[float | None] | None) -> None:
        values = value if isinstance(value, Sequence) else [value] * len(self.axes)
        if len(values) != len(self.axes):
            raise ValueError(f"need one bandlimit per axis ({len(self.axes)}), got {value}")
        for each in values:
            check_bandlimit(each)
        for space, each in zip(self._spaces(), values, strict=True):
            space.bandlimit = each

    def _spaces(self) -> list[AxisStateSpace]:
        return list(self.spaces)  # type: ignore[arg-type]

    def _rates(self, rate: Rate) -> tuple[float, ...]:
        count = len(self.axes)
        if not isinstance(rate, int | float | Sequence):
            raise TypeError(f"rate must be a number or one per axis, got {rate!r}")
        rates = (float(rate),) * count if isinstance(rate, int | float) else tuple(map(float, rate))
        if len(rates) != count:
            raise ValueError(f"rate must be one number or one per axis ({count}), got {rate}")
        if not all(0 < r < math.inf for r in rates):
            raise ValueError(f"rate must be above 0, got {rate}")
        return rates

    def _check(self, signal: Tensor) -> None:
        if not isinstance(signal, Tensor):
            raise TypeError(f"S4ND expects a tensor, got {type(signal).__name__}")
        shape = tuple(signal.shape)
        if not signal.is_floating_point():
            raise TypeError(f"S4ND expects a real floating point signal, got {signal.dtype}")
        if len(shape) != 2 + len(self.axes):
            raise ValueError(
                f"S4ND expects (batch, channels, {len(self.axes)} axes), "
                f"got a signal of shape {shape}"
            )
        if shape[1] != self.channels:
            raise ValueError(
                f"S4ND expects {self.channels} channels, "
                f"got {shape[1]} in a signal of shape {shape}"
            )
        self._check_sizes(shape[2:], f"a signal of shape {shape}")

    def _check_sizes(self, sizes: Sequence[int], what: str) -> None:
        if len(sizes) != len(self.axes):
            raise ValueError(f"S4ND expects {len(self.axes)} axes, got {what}")
        if min(sizes) < 1:
            raise ValueError(f"S4ND cannot convolve an empty axis, got {what}")

    def choose_engine(self, shape: Sequence[int], rate: Rate = 1.0) -> Engine:
        """The engine used for a signal with these axes: `auto` takes the faster one."""
        if self.engine != "auto":
            return self.engine
        lengths = self._lengths(shape, self._rates(rate))
        matmul = takes_matmul(shape, lengths, self.channels, self.mixing, self.D)
        return "matmul" if matmul else "fft"

    def _lengths(self, shape: Sequence[int], rates: Sequence[float]) -> list[int]:
        """Samples of the kernel of each axis: as many as the signal has, at most `size`."""
        axes = zip(self.axes, shape, rates, strict=True)
        return [min(size, max(round(axis.size / rate), 1)) for axis, size, rate in axes]

    def taps(self, shape: Sequence[int], rate: Rate = 1.0) -> list[Tensor]:
        """The 1D kernels of a signal with these axes: (rank * outputs, channels, 2 L) each.

        L is the length of the kernel in samples; lag 0 is at index L.
        """
        rates = self._rates(rate)
        wanted = zip(self._spaces(), self._lengths(shape, rates), rates, strict=True)
        with without_autocast(self.D.device.type):
            return [space.taps(length, each) for space, length, each in wanted]

    def _operators(
        self, shape: tuple[int, ...], rates: tuple[float, ...], engine: Engine
    ) -> list[Tensor]:
        """Toeplitz matrices, or taps for the FFT.

        Made once and reused in eval mode without gradients, and if all state spaces are frozen.
        """
        key, given = (shape, rates, engine), self.given
        if given is not None and given.key == key and given.hooks == saved_tensor_hooks():
            return given.operators
        make = partial(self._make_operators, shape, rates, engine)
        return self._cache.get_for(key, self._spaces(), make) if self._reuses() else make()

    def _reuses(self) -> bool:
        if self.training or torch.is_grad_enabled():
            return not any(p.requires_grad for p in self.spaces.parameters())
        return True

    def wanted(self, shape: Sequence[int], rate: Rate) -> tuple[object, list[KernelRequest]]:
        """The key of a call, and the requests to `sample` for its kernels: see `s4nd.together`.

        Empty if kernels are reused, made by the compiled form, or have sharded parameters (a
        DTensor, which has placements).
        """
        sizes, rates = tuple(shape), self._rates(rate)
        sharded = hasattr(self.D, "placements")
        if compiled.usable(self.D) or sharded or min(sizes) < 1 or self._reuses():
            return None, []
        engine = self.choose_engine(sizes, rates)
        return (sizes, rates, engine), self._wanted(sizes, rates, engine)

    def _make_operators(
        self, shape: Sequence[int], rates: Sequence[float], engine: Engine
    ) -> list[Tensor]:
        if not compiled.usable(self.D):
            with without_autocast(self.D.device.type):
                return sample(self._wanted(shape, rates, engine))
        taps = self.taps(shape, rates)
        if engine == "fft":
            return taps
        matrices = [conv.toeplitz(t, size) for t, size in zip(taps, shape, strict=True)]
        return [
            conv.repeat_ends(matrix, each) if axis.padding == "replicate" else matrix
            for axis, matrix, each in zip(self.axes, matrices, taps, strict=True)
        ]

    def _wanted(
        self, shape: Sequence[int], rates: Sequence[float], engine: Engine
    ) -> list[KernelRequest]:
        """The requests to `sample`, one for each axis."""
        sizes = shape if engine == "matmul" else [None] * len(shape)
        axes = zip(self._spaces(), self._lengths(shape, rates), rates, sizes, strict=True)
        return [KernelRequest(*axis) for axis in axes]

    def train(self, mode: bool = True) -> S4ND:
        """Switch the mode and empty the kernel cache."""
        self._cache.clear()
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> S4ND:
        self._cache.clear()  # kernels would occupy memory on the old device
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        """Shown by print(layer)."""
        options = f"rank={self.rank}, engine={self.engine!r}"
        if self.out_channels is not None:
            options += f", out_channels={self.out_channels}"
        return f"{self.channels}, {options}, multiplier={self.multiplier}"


def _has_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device)


def without_autocast(device: str) -> AbstractContextManager[object]:
    """Switch autocast off inside, on devices that have it; meta does not."""
    return torch.autocast(device, enabled=False) if _has_autocast(device) else nullcontext()


def state_space_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Step, A, B and P of every S4ND inside, for a separate learning rate without weight decay."""
    found: list[nn.Parameter] = []
    for space in module.modules():
        if isinstance(space, AxisStateSpace):
            mine = (space.log_dt, space.A_real, space.A_imag, space.B, space.P)
            found += [p for p in mine if p is not None]
    return list(dict.fromkeys(found))
