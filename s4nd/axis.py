"""One axis of the signal: its configuration and its state space x' = A x + B u, y = C x.

Letters: H channels, N state size, n = N/2 conjugate pairs, S copies of the state space,
R low rank, K kernels per channel (directions x outputs of the layer).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from s4nd import compiled
from s4nd.kernels.bases import BASES
from s4nd.kernels.initial import Shape, initial_values
from s4nd.kernels.kernel import apply_bandlimit
from s4nd.kernels.kernel_sampling import KernelRequest, sample, with_start

Start = Literal["random", "deterministic", "identity", "difference", "paper"]
Padding = Literal["zeros", "replicate"]
Discretisation = Literal["zoh", "bilinear"]
STARTS = ("random", "deterministic", "identity", "difference", "paper")
PADDINGS = ("zeros", "replicate")


@dataclass(frozen=True)
class AxisConfig:
    """The configuration of one axis: plain numbers and names, which JSON can hold.

    size: samples of the base grid; a longer signal is convolved with a kernel of `size` samples.
    state: state size N, even. basis: the initial A, B, P, see `s4nd.kernels.bases.BASES`.
    bidirectional: kernels for both directions, which share A, B and the step and differ in C.
    length: initial kernel length in base samples, step = 2 / length; without it the step is drawn
        log-uniformly from [dt_min, dt_max], one per channel.
    bandlimit: keep a basis function iff step * |Im a| / 2 pi < bandlimit / 2, in base units.
    copies: independent state spaces; channel h uses copy h mod copies.
    start: `random` C; `deterministic`, the first basis function with taps that sum to one;
        `identity`, a delta at lag 0 plus a state space that starts at zero, scaled by 1/state,
        because an optimiser such as Adam moves all entries of C at once; `difference`, a delta at
        lag 0 plus a random kernel whose response to a constant signal is subtracted at lag 0, at
        every rate and throughout training: it responds to changes of the signal only; `paper`, the
        first basis function unscaled in each direction, which doubles a constant signal.
    padding: what lies beyond the ends of the signal, zeros or its end samples. With `replicate` a
        constant signal stays exactly as it is under `difference`.
    discretisation: rule for a diagonal A (low-rank ones are bilinear). low_rank: columns of P.
    period: C is stored as C (I - A^period), which makes low-rank kernels cheap; None means size.
    """

    size: int
    _: KW_ONLY
    state: int = 64
    basis: str = "fourier"
    bidirectional: bool = True
    length: float | None = None
    dt_min: float = 0.1
    dt_max: float = 1.0
    bandlimit: float | None = None
    copies: int = 1
    start: Start = "random"
    padding: Padding = "zeros"
    discretisation: Discretisation | None = None
    low_rank: int | None = None
    period: int | None = None

    def __post_init__(self) -> None:
        for name in ("size", "state", "copies"):
            _check_positive_integer(name, getattr(self, name))
        if self.state % 2:
            raise ValueError(f"state must be even (conjugate pairs), got {self.state}")
        if self.basis not in BASES:
            raise ValueError(f"unknown basis {self.basis!r}; choose one of {', '.join(BASES)}")
        if self.start not in STARTS:
            raise ValueError(f"unknown start {self.start!r}; choose one of {', '.join(STARTS)}")
        if self.padding not in PADDINGS:
            raise ValueError(f"padding must be zeros or replicate, got {self.padding!r}")
        if self.length is not None and not 0 < self.length < math.inf:
            raise ValueError(f"length must be above 0 samples, got {self.length}")
        if not 0 < self.dt_min <= self.dt_max < math.inf:
            raise ValueError(f"need 0 < dt_min <= dt_max, got {self.dt_min} and {self.dt_max}")
        if self.period is not None and self.period < self.size:
            raise ValueError(f"period must be at least size ({self.size}), got {self.period}")
        check_bandlimit(self.bandlimit)
        self._check_discretisation()

    def _check_discretisation(self) -> None:
        if self.low_rank is not None and self.low_rank < 0:
            raise ValueError(f"low_rank must be 0 or more, got {self.low_rank}")
        if self.discretisation not in (None, "zoh", "bilinear"):
            raise ValueError(f"discretisation must be zoh or bilinear, got {self.discretisation!r}")
        if self.discretisation == "zoh" and self.num_low_rank:
            raise ValueError(
                f"basis {self.basis!r} has a low-rank part, which is discretised bilinearly only; "
                "choose a diag-* basis for zoh"
            )

    @property
    def num_low_rank(self) -> int:
        """Columns of P: as given, else what the basis needs."""
        return BASES[self.basis].low_rank if self.low_rank is None else self.low_rank

    @property
    def rule(self) -> Discretisation:
        """How the continuous state space becomes a discrete one."""
        if self.discretisation is not None:
            return self.discretisation
        return "bilinear" if self.num_low_rank else "zoh"


def _check_positive_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < (2 if name == "state" else 1):
        raise ValueError(f"{name} must be {2 if name == 'state' else 1} or more, got {value}")


def check_bandlimit(bandlimit: float | None) -> None:
    """Raise ValueError for a negative or undefined bandlimit."""
    if bandlimit is not None and not bandlimit >= 0:
        raise ValueError(f"bandlimit must be None or at least 0, got {bandlimit}")


class AxisStateSpace(nn.Module):
    """The learnt state space of one axis; gives 1D kernels at any length and rate."""

    P: nn.Parameter | None

    def __init__(self, config: AxisConfig, channels: int, outputs: int = 1) -> None:
        super().__init__()
        if channels % config.copies:
            raise ValueError(
                f"copies ({config.copies}) must divide channels ({channels}): "
                "channels are tiled over the copies"
            )
        self.config, self.channels, self.outputs = config, channels, outputs
        self.bandlimit = config.bandlimit
        self.conversions = 0  # moves and casts, which do not change the version of a parameter
        copies, pairs, rank = config.copies, config.state // 2, config.num_low_rank
        kernels = outputs * (2 if config.bidirectional else 1)
        self.log_dt = nn.Parameter(torch.empty(channels, 1))
        self.A_real = nn.Parameter(torch.empty(copies, pairs))  # Re A = -exp(A_real)
        self.A_imag = nn.Parameter(torch.empty(copies, pairs))  # Im A = -A_imag
        self.B = nn.Parameter(torch.empty(1, copies, pairs, 2))
        self.C = nn.Parameter(torch.empty(kernels, channels, pairs, 2))
        self.P = nn.Parameter(torch.empty(rank, copies, pairs, 2)) if rank else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial values of the configured basis and start."""
        if self.C.is_meta:
            return
        shape = Shape(self.C.shape[0], self.channels)
        for name, value in initial_values(self.config, shape).items():
            getattr(self, name).copy_(value)

    def forward(self, length: int, rate: float = 1.0) -> Tensor:
        """Kernels along the axis: (K, channels, length), `rate` base samples per sample."""
        taps = sample([KernelRequest(self, length, rate, delta=False)])[0]
        if not self.config.bidirectional:
            return taps[..., length:]
        return torch.cat((taps[..., length:], taps[..., :length].flip(-1)))

    def continuous(self, rate: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step and diagonal state space: dt (H, 1), a and b (H or 1, n, 2), c (K, H, n, 2)."""
        wide = self.kernel_dtype()
        dt = self.log_dt.to(wide).exp() * rate
        a = torch.stack((-self.A_real.to(wide).exp(), -self.A_imag.to(wide)), -1)  # (S, n, 2)
        c = self._limited(self.C.to(wide), wide)
        return dt, self._tile(a), self._tile(self.B[0].to(wide)), c

    def kernel_dtype(self) -> torch.dtype:
        """The precision of kernels: that of the parameters, but at least float32."""
        return torch.promote_types(self.C.dtype, torch.float32)

    def _limited(self, c: Tensor, dtype: torch.dtype) -> Tensor:
        """c (K, H, n, 2), zero for functions above the bandlimit; compared in `dtype`."""
        if self.bandlimit is None:
            return c
        base_dt, a_imag = self.log_dt.to(dtype).exp(), self._tile(self.A_imag.to(dtype))
        return apply_bandlimit(c, base_dt, a_imag, self.bandlimit)

    def _tile(self, x: Tensor) -> Tensor:
        """(S, ...) -> (H, ...): channel h gets copy h mod S; a single copy is left to broadcast."""
        if self.config.copies == 1:
            return x
        return x.repeat(self.channels // len(x), *[1] * (x.dim() - 1))

    def taps(self, length: int, rate: float = 1.0) -> Tensor:
        """The kernel as a row of lags: (outputs, channels, 2 length), lag 0 at index `length`.

        The backward kernel starts at lag -1. One-sided kernels have zeros at negative lags.
        """
        if self.is_compiled:
            return with_start(self._compiled_taps(length, rate), self)
        return sample([KernelRequest(self, length, rate)])[0]

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled form makes the kernels, and not plain torch."""
        return self.config.num_low_rank == 1 and compiled.usable(self.C)

    def _compiled_taps(self, length: int, rate: float) -> Tensor:
        """`taps` by the compiled form, without the delta at lag 0."""
        c = self._limited(self.C, torch.float64)
        assert self.P is not None
        shared = (self.log_dt, self.A_real, self.A_imag, self.B, self.P)
        return compiled.rank_one_taps(
            [*[x.to(c.dtype) for x in shared], c],
            rate=rate,
            period=self.period(rate),
            length=length,
            directions=2 if self.config.bidirectional else 1,
        )

    def period(self, rate: float) -> int:
        """Samples over which a low-rank kernel is folded."""
        return max(round((self.config.period or self.config.size) / rate), 1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AxisStateSpace:
        self.conversions += 1
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        """Shown by print(layer)."""
        return f"{self.config}, bandlimit={self.bandlimit}"
