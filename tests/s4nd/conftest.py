"""Slow, obvious float64 versions of what the layer computes cleverly."""

from types import SimpleNamespace

import pytest
import torch


def full_state_space(space):
    """Dense complex128 (A, B, C) of every channel of an axis: (H, N, N), (H, N), (K, H, N)."""
    config, times = space.config, space.channels // space.config.copies

    def pairs(x):
        return torch.view_as_complex(x.detach().double().contiguous())

    a = torch.complex(-space.A_real.detach().double().exp(), -space.A_imag.detach().double())
    b, c = pairs(space.B)[0], pairs(space.C)
    A = torch.diag_embed(torch.cat((a, a.conj()), -1))  # (S, N, N)
    for column in pairs(space.P) if config.num_low_rank else ():
        q = torch.cat((column, column.conj()), -1)
        A = A - q[:, :, None] * q[:, None, :].conj()
    B = torch.cat((b, b.conj()), -1)
    return A.repeat(times, 1, 1), B.repeat(times, 1), torch.cat((c, c.conj()), -1)


def discrete_state_space(space, rate=1.0):
    """(A, B, C) after discretisation, with C unfolded: k[l] = Re(C A^l B)."""
    A, B, C = full_state_space(space)
    dt = space.log_dt.detach().double().exp()[..., None] * rate  # (H, 1, 1)
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    if space.config.rule == "zoh":
        discrete = torch.matrix_exp(dt * A)
        B = torch.linalg.solve(A, (discrete - eye) @ B[..., None])[..., 0]
    else:
        implicit = eye - dt / 2 * A
        discrete = torch.linalg.solve(implicit, eye + dt / 2 * A)
        B = torch.linalg.solve(implicit, dt * B[..., None])[..., 0]
    if space.config.num_low_rank:
        period = max(round((space.config.period or space.config.size) / rate), 1)
        factor = eye - torch.linalg.matrix_power(discrete, period)  # (H, N, N)
        C = torch.linalg.solve(factor.mT, C.movedim(0, -1)).movedim(-1, 0)
    return discrete, B, C


def dense_kernel(space, length, rate=1.0):
    """k[l] = Re(C A^l B) by repeated products: (K, H, length)."""
    A, x, C = discrete_state_space(space, rate)
    samples = []
    for _ in range(length):
        samples.append(torch.einsum("khn,hn->kh", C, x).real)
        x = (A @ x[..., None])[..., 0]
    return torch.stack(samples, -1)


def relative(ours, theirs):
    """Largest difference relative to the largest entry."""
    ours, theirs = (torch.as_tensor(x).detach().double() for x in (ours, theirs))
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def dense():
    return SimpleNamespace(
        full=full_state_space, discrete=discrete_state_space, kernel=dense_kernel, relative=relative
    )
