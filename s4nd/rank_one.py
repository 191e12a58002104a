"""The kernel of diagonal-plus-rank-one state spaces on a CPU, from its parameters, with gradient.

It computes what `s4nd.low_rank.low_rank_kernel` does (a test holds them together) in a fraction of
the time, because torch takes longer to begin an operation than these need: numpy works on the few
numbers of a state space, and `s4nd.channels` takes a channel at a time from its weights to its
kernel. One thread does it; torch's others wait for its next operation without leaving their cores.

Letters as in `s4nd.low_rank`. Gradients of a complex z are dL/d Re z + i dL/d Im z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s4nd import channels
from s4nd.channels import Array

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneKernel(torch.autograd.Function):
    """Parameters of an axis -> kernel (K, H, L), of the type of C.

    log_dt (H, 1); A_real and A_imag (S, n); B and P (1, S, n, 2); C (K, H, n, 2).
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_dt: Tensor,
        a_real: Tensor,
        a_imag: Tensor,
        b: Tensor,
        c: Tensor,
        p: Tensor,
        rate: float,
        grid: Grid,
    ) -> Tensor:
        """The kernel at `rate` base samples per sample."""
        y = np.exp(_numbers(log_dt)[:, 0]) * (rate / 2)
        a = -np.exp(_numbers(a_real)) - 1j * _numbers(a_imag)  # (S, n)
        spaces = StateSpaces(a, _complex(b), _complex(p), *_solve(a, _complex(b), _complex(p)))
        inputs = (y, c.detach().contiguous().numpy(), *spaces.prepared(grid.period))
        inputs += tuple(x.numpy() for x in (grid.sin, grid.cos, grid.sin_full, grid.inverse))
        kernel, sums = channels.forward(*inputs)
        ctx.saved = spaces, grid.period, (*inputs, sums)
        ctx.save_for_backward(log_dt, a_real, a_imag, b, c, p)  # torch watches over changes of them
        return torch.from_numpy(kernel)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Of every parameter."""
        spaces, period, inputs = ctx.saved
        of_y, of_c, *of_prepared = channels.backward(*inputs, grad.contiguous().numpy())
        of_a, of_b, of_p = spaces.backward(*of_prepared, period)
        of_log_dt, of_a_real = of_y * inputs[0], of_a.real * spaces.a.real
        found = (of_log_dt[:, None], of_a_real, -of_a.imag, _pairs(of_b), of_c, _pairs(of_p))
        gradients = [
            torch.from_numpy(x).to(parameter.dtype)
            for x, parameter in zip(found, ctx.saved_tensors, strict=True)
        ]
        return *gradients, None, None


class StateSpaces(NamedTuple):
    """M = diag(a) - p p^H, b, and v with M v = b, of which e = p^H v: all (S, n) but e (S, 1)."""

    a: Array
    b: Array
    p: Array
    v: Array
    e: Array

    def right_sides(self) -> Array:
        """What residues are taken against: (S, 4, n)."""
        conj = self.a.conj()
        return np.stack((self.b, self.b * conj, self.p, self.p * conj), 1)

    def prepared(self, period: int) -> tuple[Array, ...]:
        """|a|^2, Re a, and what turns the parts of c into residues and into the mean of a kernel.

        (S, n), (S, n), (S, 2, 4, n), the residues (S, 4, n) of conj(p), (S, 2, n).
        """
        right = self.right_sides()
        weights = 2 * np.stack((right.real, -right.imag), 1)
        rows = 2 * (self.p.conj()[:, None] * right).real
        zero = np.stack((self.v.real, -self.v.imag), 1) * (-2 / period)
        squares = self.a.real**2 + self.a.imag**2
        return squares, self.a.real.copy(), weights, rows, zero

    def backward(
        self,
        of_squares: Array,
        of_a_re: Array,
        of_weights: Array,
        of_rows: Array,
        of_zero: Array,
        period: int,
    ) -> tuple[Array, Array, Array]:
        """Gradients of a, b and p: (S, n) each."""
        of_right = 2 * (of_weights[:, 0] - 1j * of_weights[:, 1]) + 2 * of_rows * self.p[:, None]
        to_b, to_b_a, to_p, to_p_a = of_right.swapaxes(0, 1)  # (S, n) each
        of_b, of_p = to_b + to_b_a * self.a, to_p + to_p_a * self.a
        of_p += 2 * (of_rows * self.right_sides()).sum(1)
        of_a = to_b_a.conj() * self.b + to_p_a.conj() * self.p + 2 * of_squares * self.a + of_a_re
        # M v = b: the adjoint solution is the gradient of b, and -adjoint v^H that of M.
        of_v = (of_zero[:, 0] - 1j * of_zero[:, 1]) * (-2 / period)
        adjoint, its_e = _solve(self.a.conj(), of_v, self.p)
        of_p += adjoint * self.e + its_e * self.v
        return of_a - adjoint * self.v.conj(), of_b + adjoint, of_p


def _solve(a: Array, b: Array, p: Array) -> tuple[Array, Array]:
    """v with a v - p e = b, e = 2 Re sum conj(p) v.

    A Fourier basis has a pole almost at the origin. Dividing by it would cancel terms of size
    1 / |a|, so this one is solved for together with e, which is well conditioned.
    """
    smallest = np.arange(len(a)), np.abs(a).argmin(-1)  # (S,) each
    a_0, b_0, p_0 = a[smallest], b[smallest], p[smallest]
    inverse = 1 / a
    inverse[smallest] = 0
    others_b = 2 * (p.conj() * b * inverse).real.sum(
        -1
    )  # e = others_b + ... e + 2 Re conj(p_0) v_0
    gain = 1 / (1 - 2 * ((p.real**2 + p.imag**2) * inverse).real.sum(-1))
    size = np.abs(p_0)
    phase = np.where(size > 0, p_0 / np.where(size > 0, size, 1), 1)
    f = b_0 * phase.conj() + size * others_b * gain  # with p_0 turned onto the real axis
    feedback = 2 * size * size * gain
    determinant = a_0.real**2 + a_0.imag**2 - feedback * a_0.real
    re = (a_0.real * f.real + a_0.imag * f.imag) / determinant
    im = ((a_0.real - feedback) * f.imag - a_0.imag * f.real) / determinant
    e = ((others_b + 2 * size * re) * gain)[:, None]
    v = (b + p * e) * inverse
    v[smallest] = (re + 1j * im) * phase
    return v, e


def _numbers(x: Tensor) -> Array:
    return x.detach().double().numpy()


def _complex(x: Tensor) -> Array:
    return torch.view_as_complex(x.detach()[0].double().contiguous()).numpy()  # (S, n)


def _pairs(x: Array) -> Array:
    return np.stack((x.real, x.imag), -1)[None]
