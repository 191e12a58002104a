"""The spectrum of a diagonal-plus-rank-one kernel, with its gradient written out.

It computes what `s4nd.low_rank._spectrum` does (a test holds them together) in a third of the time:
the poles, by far the largest tensors of a kernel, are worked on in place, and only they are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneKernel(torch.autograd.Function):
    """(y, |x|^2, Re x, rows) -> spectrum (H, K, 2F).

    y (H, 1), |x|^2 and Re x (H, n), rows (H, (K + 1) 4, n): for each kernel and then for P the
    residues against b (two numbers per pair) and against p (two more).
    """

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x_squared: Tensor, x_re: Tensor, rows: Tensor, grid: Grid
    ) -> Tensor:
        """Sum the pole pairs and apply Sherman-Morrison."""
        poles = _pole_pairs(x_squared, x_re, grid)  # (H, n, 2, F)
        sums = torch.bmm(rows, poles.flatten(-2))  # (H, (K + 1) 4, 2F)
        sums = sums.view(len(y), -1, 2, 2, 2, len(grid.cos))  # kernel, (b, p), residue, (re, im), F
        sums = torch.complex(sums[..., 0, :], sums[..., 1, :])
        shift = y * grid.cos  # (H, F)
        table = 1j * grid.sin * sums[:, :, :, 0] - shift[:, None, None] * sums[:, :, :, 1]
        inverse = 1 / (1 + shift * table[:, -1, 1])  # (H, F)
        ratio = shift * inverse
        spectrum = table[:, :-1, 0] - table[:, :-1, 1] * (ratio * table[:, -1, 0])[:, None]
        ctx.grid = grid
        ctx.save_for_backward(rows, poles, sums[:, :, :, 1], shift, table, inverse)
        return torch.cat((spectrum.real, spectrum.imag), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of a complex z are dL/d Re z + i dL/d Im z throughout."""
        rows, poles, skew_sums, shift, table, inverse = ctx.saved_tensors
        grid, count = ctx.grid, len(ctx.grid.cos)
        ratio, of_pb = shift * inverse, table[:, -1, 0]
        g = torch.complex(grad[..., :count], grad[..., count:])  # (H, K, F)
        g_table = torch.empty_like(table)  # (H, K + 1, 2, F)
        g_table[:, :-1, 0] = g
        g_table[:, :-1, 1] = -g * (ratio * of_pb).conj()[:, None]
        g_q = -(g * table[:, :-1, 1].conj()).sum(1)  # q = ratio * of_pb, (H, F)
        g_ratio = g_q * of_pb.conj()
        g_table[:, -1, 0] = g_q * ratio.conj()
        g_table[:, -1, 1] = -g_ratio * ratio.square().conj()
        g_shift = (g_ratio * inverse.square().conj()).real
        g_shift = g_shift - (g_table * skew_sums.conj()).real.sum((1, 2))
        g_sums = torch.stack((-1j * grid.sin * g_table, -shift[:, None, None] * g_table), 3)
        g_sums = torch.stack((g_sums.real, g_sums.imag), -2).view(len(rows), -1, 2 * count)
        g_rows = torch.bmm(g_sums, poles.flatten(-2).mT)
        g_poles = torch.bmm(rows.mT, g_sums).view(poles.shape)
        g_squared, g_re = _pole_pairs_backward(poles, g_poles, grid)
        return g_shift @ grid.cos[:, None], g_squared, g_re, g_rows, None


def _pole_pairs(x_squared: Tensor, x_re: Tensor, grid: Grid) -> Tensor:
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x) as (H, n, 2, F), real and imaginary part."""
    terms = torch.stack((x_squared, x_re, torch.ones_like(x_re)), -1).view(-1, 3)  # (H n, 3)
    zero = torch.zeros_like(grid.cos)
    constants = torch.stack(
        (
            torch.cat((grid.cos.square(), zero)),
            torch.cat((zero, grid.sin_full)),
            torch.cat((-grid.sin.square(), zero)),
        )
    )
    poles = torch.mm(terms, constants).view(*x_re.shape, 2, -1)
    re, im = poles.unbind(2)
    size = (re * re).addcmul_(im, im)
    return poles.div_(size.unsqueeze(2))


def _pole_pairs_backward(poles: Tensor, grad: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Gradients of |x|^2 and Re x: (H, n) each. With w the pole pair, dw = -w^2 d(1/w)."""
    (u, v), (g_u, g_v) = poles.unbind(2), grad.unbind(2)
    real = (u * u).addcmul_(v, v, value=-1)  # Re w^2
    half = u * v  # Im w^2 / 2
    g_re = (real * g_u).addcmul_(half, g_v, value=2)
    g_im = (real * g_v).addcmul_(half, g_u, value=-2)
    return -(g_re @ grid.cos.square()), g_im @ grid.sin_full
