"""The kernel of diagonal-plus-rank-one state spaces, with its gradient written out.

It computes what `s4nd.low_rank._kernel` does (a test holds them together)
in a fraction of the time: the poles, by far the largest tensors of a kernel, are worked on in place
and kept, every step is one operation on all axes and channels, and every tensor has a long
contiguous dimension last, channels for the small ones, pairs for the poles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneKernel(torch.autograd.Function):
    """(y, |a|^2, Re a, c, weights, rows of P) -> kernel without its mean (K, L, S h).

    y (S, h); |a|^2 and Re a (S, n); c (S, h, K, 2, n); weights (S, 2, 4, n), what turns the parts
    of c into residues against b and against p, two numbers per pair; rows (S, 4, n), those of P.
    """

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        squares: Tensor,
        a_re: Tensor,
        c: Tensor,
        weights: Tensor,
        rows_p: Tensor,
        grid: Grid,
    ) -> Tensor:
        """Sum the pole pairs, apply Sherman-Morrison and transform back."""
        poles = _pole_pairs(y, squares, a_re, grid)  # (S, h, 2F, n)
        rows = _rows(c, weights)  # (S h, 4K, n)
        sums = _to_complex(torch.bmm(rows, poles.flatten(0, 1).mT))  # (K, 2, 2, F, S h)
        sums_p = torch.bmm(poles.flatten(1, 2), rows_p.mT).view(*poles.shape[:3], 4)
        sums_p = _to_complex(sums_p.flatten(0, 1).mT)  # (1, 2, 2, F, S h)
        sums = torch.cat((sums, sums_p))
        shift = grid.cos[:, None] * y.flatten()  # (F, S h)
        table = sums[:, :, 0] * (1j * grid.sin)[:, None] - sums[:, :, 1] * shift
        inverse = 1 / (1 + shift * table[-1, 1])  # (F, S h)
        spectrum = table[:-1, 0] - table[:-1, 1] * (shift * inverse * table[-1, 0])
        spectrum = torch.cat((spectrum.real, spectrum.imag), 1)  # (K, 2F, S h)
        wave = torch.matmul(grid.inverse, spectrum)  # (K, L, S h)
        ctx.grid = grid
        inputs = (y, squares, a_re, c, weights, rows_p)
        ctx.save_for_backward(*inputs, poles, sums[:, :, 1], shift, table, inverse, wave)
        return wave * y.flatten()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of a complex z are dL/d Re z + i dL/d Im z throughout."""
        y, squares, a_re, c, weights, rows_p, poles, *others = ctx.saved_tensors
        skew_sums, shift, table, inverse, wave = others
        grid: Grid = ctx.grid
        g_y = (grad * wave).sum((0, 1))  # (S h,)
        ratio, of_pb = shift * inverse, table[-1, 0]
        g = torch.matmul(grid.inverse.mT, grad * y.flatten())  # (K, 2F, S h)
        g = torch.complex(*g.chunk(2, 1))  # (K, F, S h)
        g_table = torch.empty_like(table)  # (K + 1, 2, F, S h)
        g_table[:-1, 0] = g
        torch.mul(g, -(ratio * of_pb).conj(), out=g_table[:-1, 1])
        g_q = -(g * table[:-1, 1].conj()).sum(0)  # q = ratio * of_pb, (F, S h)
        g_ratio = g_q * of_pb.conj()
        g_table[-1, 0] = g_q * ratio.conj()
        g_table[-1, 1] = -g_ratio * ratio.square().conj()
        g_shift = (g_ratio * inverse.square().conj()).real
        g_shift = g_shift - (g_table * skew_sums.conj()).real.sum((0, 1))  # (F, S h)
        g_y = g_y + grid.cos @ g_shift
        g_sums = torch.stack((g_table * (-1j * grid.sin)[:, None], g_table * -shift), 2)
        of_rows = _from_complex(g_sums[:-1])  # (S h, 4K, 2F)
        of_p = _from_complex(g_sums[-1:]).mT.reshape(len(y), -1, 4)  # (S, h 2F, 4)
        # The large tensors: as few as possible are allocated, because fresh memory costs several
        # times the arithmetic. The rows are cheaper to make again than to keep.
        buffer = _rows(c, weights)  # (S h, 4K, n)
        g_poles = torch.bmm(of_rows.mT, buffer).view(len(y), -1, buffer.shape[-1])
        g_poles.baddbmm_(of_p, rows_p)  # (S, h 2F, n)
        g_rows_p = torch.bmm(of_p.mT, poles.flatten(1, 2))  # (S, 4, n)
        g_rows = torch.bmm(of_rows, poles.flatten(0, 1), out=buffer)
        g_c, g_weights = _rows_backward(c, weights, g_rows)
        of_squares, of_re = _pole_pairs_backward(poles, g_poles.view_as(poles), grid)  # (S, h, n)
        g_y = g_y.view_as(y) + torch.einsum("shn,sn->sh", of_re, a_re)
        g_y = g_y + 2 * y * torch.einsum("shn,sn->sh", of_squares, squares)
        g_squares = torch.einsum("sh,shn->sn", y.square(), of_squares)
        return g_y, g_squares, torch.einsum("sh,shn->sn", y, of_re), g_c, g_weights, g_rows_p, None


def _rows(c: Tensor, weights: Tensor) -> Tensor:
    """The residues of every kernel: (S h, 4K, n)."""
    rows = c[..., 0, None, :] * weights[:, None, None, 0]  # (S, h, K, 4, n)
    rows.addcmul_(c[..., 1, None, :], weights[:, None, None, 1])
    return rows.flatten(2, 3).flatten(0, 1)


def _rows_backward(c: Tensor, weights: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of c and of the weights: products with a sparse matrix, faster than sums."""
    spaces, pairs = len(c), c.shape[-1]
    grad = grad.view(spaces, -1, 4 * pairs)
    matrix = torch.diag_embed(weights).transpose(2, 3).reshape(spaces, 2 * pairs, -1)
    g_c = torch.bmm(grad, matrix.mT).view_as(c)
    g_matrix = torch.bmm(c.view(spaces, -1, 2 * pairs).mT, grad)  # (S, 2n, 4n)
    return g_c, g_matrix.view(spaces, 2, pairs, 4, pairs).diagonal(dim1=2, dim2=4)


def _to_complex(sums: Tensor) -> Tensor:
    """(S h, 4K, 2F) -> (K, 2 (b, p), 2 residues, F, S h), complex."""
    sums = sums.reshape(len(sums), -1, 2, 2, 2, sums.shape[-1] // 2)
    return torch.view_as_complex(sums.permute(1, 2, 3, 5, 0, 4).contiguous())


def _from_complex(sums: Tensor) -> Tensor:
    """The other way round."""
    sums = torch.view_as_real(sums).permute(4, 0, 1, 2, 5, 3)  # (S h, K, 2, 2, 2, F)
    return sums.reshape(len(sums), -1, 2 * sums.shape[-1])


def _pole_pairs(y: Tensor, squares: Tensor, a_re: Tensor, grid: Grid) -> Tensor:
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x), x = y a: (S, h, 2F, n), real, then imaginary parts."""
    count = len(grid.cos)
    poles = y.new_empty(*y.shape, 2 * count, a_re.shape[-1])
    re, im = poles[:, :, :count], poles[:, :, count:]
    square_sin, square_cos = grid.sin.square()[:, None], grid.cos.square()[:, None]
    x_squared = y.square()[..., None] * squares[:, None]  # (S, h, n)
    x_re = y[..., None] * a_re[:, None]
    torch.addcmul(-square_sin, x_squared[:, :, None], square_cos, out=re)
    torch.mul(x_re[:, :, None], grid.sin_full[:, None], out=im)
    scale = (re * re).addcmul_(im, im).reciprocal_()
    re.mul_(scale)
    im.mul_(scale)
    return poles


def _pole_pairs_backward(poles: Tensor, grad: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Gradients of |x|^2 and Re x: (S, h, n) each. With w the pole pair, dw = -w^2 d(1/w).

    It overwrites `grad`.
    """
    (u, v), (g_u, g_v) = poles.chunk(2, 2), grad.chunk(2, 2)
    real = (u * u).addcmul_(v, v, value=-1)  # Re w^2
    half = u * v  # Im w^2 / 2
    g_re = (real * g_u).addcmul_(half, g_v, value=2)
    g_im = g_v.mul_(real).addcmul_(half, g_u, value=-2)
    of_squares = torch.matmul(-grid.cos.square(), g_re)  # sums over frequencies, (S, h, n)
    return of_squares, torch.matmul(grid.sin_full, g_im)
