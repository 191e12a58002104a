"""Direct float64 formulas of what the layer computes, slow and differentiable by autograd."""

from types import SimpleNamespace

import pytest
import torch

from s4nd import compiled, conv


def full_state_space(space):
    """Dense complex128 (A, B, C) of every channel of an axis: (H, N, N), (H, N), (K, H, N)."""
    config, times = space.config, space.channels // space.config.copies

    def pairs(x):
        return torch.view_as_complex(x.double().contiguous())

    a = torch.complex(-space.A_real.double().exp(), -space.A_imag.double())
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
    dt = space.log_dt.double().exp()[..., None] * rate  # (H, 1, 1)
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


def dense_output(layer, signal, rate=1.0):
    """y = K * u + D u: one dense matrix per axis and channel, entry by entry."""
    total = 0
    for term in range(layer.rank):
        z = signal.unsqueeze(1).expand(-1, layer.mixing.groups, *signal.shape[1:])
        for axis, (space, size) in enumerate(zip(layer.spaces, signal.shape[2:], strict=True)):
            reach = min(size, max(round(space.config.size / rate), 1))
            kernels = dense_kernel(space, reach, rate)  # (K, H, reach)
            lags = dict(enumerate(kernels[: space.outputs].unbind(-1)))
            if space.config.bidirectional:
                behind = kernels[space.outputs :].unbind(-1)
                lags |= {-1 - lag: tap for lag, tap in enumerate(behind)}
            if space.config.start == "identity":
                lags = {lag: tap / space.config.state for lag, tap in lags.items()}
                lags[0] = lags[0] + 1
            none = torch.zeros_like(kernels[: space.outputs, :, 0])
            rows = [[lags.get(i - j, none) for j in range(size)] for i in range(size)]
            matrix = torch.stack([torch.stack(row, -1) for row in rows], -2)  # (K, H, size, size)
            matrix = matrix.unflatten(0, (layer.rank, -1))[term]  # (groups, H, size, size)
            moved = z.movedim(3 + axis, -1)
            z = torch.einsum("ghij,bgh...j->bgh...i", matrix, moved).movedim(-1, 3 + axis)
        total = total + z
    skip = layer.D.view(*layer.D.shape, *[1] * (signal.dim() - 2))
    if layer.mixing.dense:
        return total.sum(2) + (skip[0] * signal).sum(1, keepdim=True)
    return (total + skip * signal.unsqueeze(1)).flatten(1, 2)


def relative(ours, theirs):
    """Largest difference relative to the largest entry."""
    ours, theirs = (torch.as_tensor(x).detach().double() for x in (ours, theirs))
    return float((ours - theirs).abs().max() / theirs.abs().max())


@torch.no_grad()
def rounding(layer, signal):
    """How far two orders of summation may lie apart, for every number of layer(signal).

    In any order, a sum of n products is within n eps of the sum of their absolute values.
    """
    taps = layer.taps(signal.shape[2:])
    sizes = signal.shape[2:]
    matrices = [conv.toeplitz(t.abs(), n) for t, n in zip(taps, sizes, strict=True)]
    magnitude = conv.convolve_matmul(signal.abs(), matrices, layer.D.abs(), layer.mixing)
    return 2 * (sum(sizes) + 2) * torch.finfo(signal.dtype).eps * magnitude


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(params=["compiled", "plain"])
def form(request):
    """The test runs with the compiled form, then in plain torch."""
    if request.param == "compiled":
        assert compiled.available()
        yield request.param
    else:
        with compiled.disabled():
            yield request.param


@pytest.fixture
def plain():
    """The test runs in plain torch."""
    with compiled.disabled():
        yield


@pytest.fixture(scope="session")
def dense():
    return SimpleNamespace(
        full=full_state_space,
        discrete=discrete_state_space,
        kernel=dense_kernel,
        output=dense_output,
        relative=relative,
        rounding=rounding,
    )
