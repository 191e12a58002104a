"""The frequencies at which low-rank kernels are computed, and the transform to samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from s4nd.kernels.kernel import two_sided

LONGEST_MATRIX = 512  # samples of a period that are transformed by a matrix product


class Grid:
    """The frequencies t = 2 pi / period, ..., pi of kernels of `length` samples.

    Their spectra are real parts, imaginary parts, mean: 2F + 1 numbers for each direction.
    """

    def __init__(
        self,
        period: int,
        length: int,
        directions: int,
        device: torch.device,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if length > period:
            raise ValueError(
                f"a kernel folded over {period} samples has at most {period}, got length {length}; "
                "give the axis a longer period"
            )
        self.period, self.length, self.directions = period, length, directions
        index = torch.arange(1, period // 2 + 1, dtype=dtype, device=device)
        self.t = 2 * math.pi / period * index  # (F,)
        half = self.t / 2
        self.sin, self.cos, self.sin_full = half.sin(), half.cos(), self.t.sin()
        # A pole pair at these frequencies is waves * (|x|^2, Re x) - offset, see `low_rank`.
        self.waves = torch.stack((self.cos * self.cos, self.sin_full))  # (2, F)
        self.offset = torch.stack((self.sin * self.sin, torch.zeros_like(self.sin)))
        # Each frequency counts twice, for itself and its conjugate, except pi.
        self.weight = (2 - (2 * index == period).to(dtype)) / period
        self.to_taps = self._matrix() if period <= LONGEST_MATRIX else None

    def _matrix(self) -> Tensor:
        """From spectra to taps: (directions (2F + 1), 2 L)."""
        index = torch.arange(self.length, dtype=self.t.dtype, device=self.t.device)
        phase = self.t[:, None] * (index + 0.5)  # (F, L)
        weight, one = self.weight[:, None], torch.ones_like(index)[None]
        ahead = torch.cat((weight * phase.cos(), -weight * phase.sin(), one))  # (2F + 1, L)
        first = functional.pad(ahead, (self.length, 0))
        return first if self.directions == 1 else torch.cat((first, first.flip(-1)))

    def taps(self, spectrum: Tensor) -> Tensor:
        """(..., directions, 2F + 1) -> (..., 2 L), by a product or, for long kernels, an FFT."""
        if self.to_taps is not None:
            return torch.matmul(spectrum.flatten(-2), self.to_taps)
        count = len(self.t)
        re, im, mean = spectrum[..., :count], spectrum[..., count:-1], spectrum[..., -1:]
        positive = torch.polar(torch.ones_like(self.t), self.t / 2) * torch.complex(re, im)
        values = torch.cat(((self.period * mean).to(positive.dtype), positive), -1)
        samples = torch.fft.irfft(values, self.period)[..., : self.length]
        return two_sided(samples[..., 0, :], samples[..., 1, :] if self.directions == 2 else None)
