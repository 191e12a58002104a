"""The spectrum of a diagonal-plus-rank-one kernel, with its gradient written out.

It computes what `s4nd.low_rank._spectrum` does (a test holds them together) in a fraction of the
time: the poles, by far the largest tensors of a kernel, are worked on in place and only they are
kept, and every tensor has a long contiguous dimension last, channels for the small ones, pairs for
the poles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneKernel(torch.autograd.Function):
    """(y, |x|^2, Re x, rows) -> spectrum (K, 2F, H).

    y (H, 1), |x|^2 and Re x (H, n); rows (H, K + 1, 2, 2, n): residues of each kernel, and last of
    P, against b and against p, two numbers per pair.
    """

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x_squared: Tensor, x_re: Tensor, rows: Tensor, grid: Grid
    ) -> Tensor:
        """Sum the pole pairs and apply Sherman-Morrison."""
        poles = _pole_pairs(x_squared, x_re, grid)  # (H, 2F, n)
        sums = _to_complex(torch.bmm(rows.flatten(1, 3), poles.mT))  # (K + 1, 2, 2, F, H)
        shift = grid.cos[:, None] * y[:, 0]  # (F, H)
        table = sums[:, :, 0] * (1j * grid.sin)[:, None] - sums[:, :, 1] * shift
        inverse = 1 / (1 + shift * table[-1, 1])  # (F, H)
        spectrum = table[:-1, 0] - table[:-1, 1] * (shift * inverse * table[-1, 0])
        ctx.grid = grid
        ctx.save_for_backward(rows, poles, sums[:, :, 1], shift, table, inverse)
        return torch.cat((spectrum.real, spectrum.imag), 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of a complex z are dL/d Re z + i dL/d Im z throughout."""
        rows, poles, skew_sums, shift, table, inverse = ctx.saved_tensors
        grid: Grid = ctx.grid
        ratio, of_pb = shift * inverse, table[-1, 0]
        g = torch.complex(*grad.chunk(2, 1))  # (K, F, H)
        g_table = torch.empty_like(table)  # (K + 1, 2, F, H)
        g_table[:-1, 0] = g
        torch.mul(g, -(ratio * of_pb).conj(), out=g_table[:-1, 1])
        g_q = -(g * table[:-1, 1].conj()).sum(0)  # q = ratio * of_pb, (F, H)
        g_ratio = g_q * of_pb.conj()
        g_table[-1, 0] = g_q * ratio.conj()
        g_table[-1, 1] = -g_ratio * ratio.square().conj()
        g_shift = (g_ratio * inverse.square().conj()).real
        g_shift = g_shift - (g_table * skew_sums.conj()).real.sum((0, 1))  # (F, H)
        g_sums = torch.stack((g_table * (-1j * grid.sin)[:, None], g_table * -shift), 2)
        g_sums = _from_complex(g_sums)  # (H, (K + 1) 4, 2F)
        g_rows = torch.bmm(g_sums, poles).view_as(rows)
        g_poles = torch.bmm(g_sums.mT, rows.flatten(1, 3))  # (H, 2F, n)
        g_squared, g_re = _pole_pairs_backward(poles, g_poles, grid)
        return (grid.cos @ g_shift)[:, None], g_squared, g_re, g_rows, None


def _to_complex(sums: Tensor) -> Tensor:
    """(H, (K + 1) 4, 2F) -> (K + 1, 2 (b, p), 2 residues, F, H), complex."""
    sums = sums.view(len(sums), -1, 2, 2, 2, sums.shape[-1] // 2)
    return torch.view_as_complex(sums.permute(1, 2, 3, 5, 0, 4).contiguous())


def _from_complex(sums: Tensor) -> Tensor:
    """The other way round."""
    sums = torch.view_as_real(sums).permute(4, 0, 1, 2, 5, 3)  # (H, K + 1, 2, 2, 2, F)
    return sums.reshape(len(sums), -1, 2 * sums.shape[-1])


def _pole_pairs(x_squared: Tensor, x_re: Tensor, grid: Grid) -> Tensor:
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x): (H, 2F, n), real parts, then imaginary parts."""
    count = len(grid.cos)
    poles = x_re.new_empty(len(x_re), 2 * count, x_re.shape[-1])
    re, im = poles[:, :count], poles[:, count:]
    square_sin, square_cos = grid.sin.square()[:, None], grid.cos.square()[:, None]
    torch.addcmul(-square_sin, x_squared[:, None], square_cos, out=re)
    torch.mul(x_re[:, None], grid.sin_full[:, None], out=im)
    scale = (re * re).addcmul_(im, im).reciprocal_()
    re.mul_(scale)
    im.mul_(scale)
    return poles


def _pole_pairs_backward(poles: Tensor, grad: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Gradients of |x|^2 and Re x: (H, n) each. With w the pole pair, dw = -w^2 d(1/w)."""
    (u, v), (g_u, g_v) = poles.chunk(2, 1), grad.chunk(2, 1)
    real = (u * u).addcmul_(v, v, value=-1)  # Re w^2
    half = u * v  # Im w^2 / 2
    g_re = (real * g_u).addcmul_(half, g_v, value=2)
    g_im = real.mul_(g_v).addcmul_(half, g_u, value=-2)
    g_re.mul_(-grid.cos.square()[:, None])
    g_im.mul_(grid.sin_full[:, None])
    return g_re.sum(1), g_im.sum(1)
