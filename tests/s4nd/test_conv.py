import itertools
import math
import random

import pytest
import torch

from s4nd import S4ND, AxisConfig, conv
from s4nd.engines.engine_choice import prefers_matmul

SHAPES = {1: (13,), 2: (6, 9), 3: (4, 5, 7), 4: (3, 2, 4, 3)}


def layer_of(sizes, *, channels=3, bidirectional=True, basis="diag-lin", **options):
    axes = [AxisConfig(n, state=8, basis=basis, bidirectional=bidirectional) for n in sizes]
    return S4ND(channels, axes, **options)


def direct(layer, signal, rate=1.0):
    """y[i] = sum over j of K[i - j] u[j] + D u[i], position by position."""
    sizes = signal.shape[2:]
    kernel = layer.kernel(sizes, rate)  # (channels, *lags) or (out, channels, *lags)
    offsets = [
        n - 1 if axis.bidirectional else 0 for n, axis in zip(sizes, layer.axes, strict=True)
    ]
    dense = layer.out_channels is not None
    repeated = signal if dense else signal.repeat(1, layer.multiplier, *[1] * len(sizes))
    out = torch.zeros(len(signal), len(kernel), *sizes, dtype=signal.dtype)
    positions = list(itertools.product(*map(range, sizes)))
    for i, j in itertools.product(positions, positions):
        lag = [a - b + o for a, b, o in zip(i, j, offsets, strict=True)]
        if min(lag) < 0:
            continue
        tap = kernel[(..., *lag)]
        value = repeated[(..., *j)]  # (batch, channels)
        out[(..., *i)] += value @ tap.T if dense else value * tap
    ones = [1] * len(sizes)
    if dense:
        return out + (signal * layer.D.view(-1, *ones)).sum(1, keepdim=True)
    return out + repeated * layer.D.view(-1, *ones)


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"rank": 3}, {"multiplier": 2}, {"out_channels": 4, "rank": 2}]
)
def test_engines_equal_the_sum_over_lags(dense, engine, count, options):
    sizes = SHAPES[count] if count < 3 else (3, 2, 4)
    layer = layer_of(sizes, channels=2, engine=engine, **options).double()
    with torch.no_grad():
        layer.D.normal_()
        signal = torch.randn(2, 2, *sizes).double()
        assert dense.relative(layer(signal), direct(layer, signal)) < 1e-12


@pytest.mark.parametrize("engine", ["matmul", "fft"])
def test_one_sided_kernels_look_only_back(dense, engine):
    layer = layer_of((5, 6), bidirectional=False, engine=engine).double()
    signal = torch.randn(1, 3, 5, 6).double()
    with torch.no_grad():
        assert dense.relative(layer(signal), direct(layer, signal)) < 1e-12
        changed = signal.clone()
        changed[..., 3:, :] += 1
        torch.testing.assert_close(layer(changed)[..., :3, :], layer(signal)[..., :3, :])


@pytest.mark.parametrize("engine", ["matmul", "fft"])
def test_a_signal_longer_than_size_is_convolved_with_a_kernel_of_size(dense, engine):
    layer = layer_of((4, 3), engine=engine).double()
    signal = torch.randn(1, 3, 9, 8).double()
    with torch.no_grad():
        assert dense.relative(layer(signal), direct(layer, signal)) < 1e-12
        kernel = layer.kernel((9, 8))
    assert kernel.shape == (3, 17, 15)
    assert kernel[:, 12:].abs().max() == 0  # lags 4 and up
    assert kernel[:, :4].abs().max() == 0  # lags -5 and down
    assert kernel[:, 4].abs().max() > 0  # lag -4: the backward kernel starts at -1


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("basis", ["fourier", "diag-inv"])
@pytest.mark.parametrize("options", [{}, {"rank": 2, "out_channels": 5}])
def test_engines_agree_in_single_precision(dense, count, basis, options):
    layer = layer_of(SHAPES[count], basis=basis, **options)
    signal = torch.randn(2, 3, *SHAPES[count], requires_grad=True)
    results = []
    for engine in ("matmul", "fft"):
        layer.engine = engine
        y = layer(signal, 1.0)
        weight = torch.linspace(-1, 1, y.numel()).view_as(y)
        inputs = [signal, *layer.parameters()]
        results.append([y, *torch.autograd.grad((y * weight).sum(), inputs)])
    for part in (slice(0, 1), slice(1, 2), slice(2, None)):  # output, signal, parameters
        matmul, fft = (torch.cat([t.flatten() for t in result[part]]) for result in results)
        assert dense.relative(matmul, fft.detach()) < 1e-5


@pytest.mark.parametrize("basis", ["fourier", "diag-lin"])
def test_theorem_1_stepping_each_axis_in_turn_is_the_convolution(dense, basis):
    """x <- A x + B u, y = Re C x along each axis, forwards and backwards, one after the other."""
    sizes = (6, 7, 5)
    layer = layer_of(sizes, basis=basis, channels=2).double()
    signal = torch.randn(2, 2, *sizes).double()
    stepped = signal
    for index, space in enumerate(layer.spaces):
        A, B, C = dense.discrete(space)
        u = stepped.movedim(2 + index, 0)  # (size, batch, channels, ...)

        def run(u, direction, A=A, B=B, C=C):
            state = torch.zeros(*u.shape[1:], A.shape[-1], dtype=A.dtype)
            outputs = []
            for sample in u:
                state = torch.einsum("hmn,bh...n->bh...m", A, state)
                state = state + torch.einsum("bh...,hn->bh...n", sample.to(A.dtype), B)
                outputs.append(torch.einsum("hn,bh...n->bh...", C[direction], state).real)
            return torch.stack(outputs)

        backwards = run(u.flip(0), 1).flip(0)[1:]  # starts at lag -1
        total = run(u, 0)
        total[:-1] += backwards
        stepped = total.movedim(0, 2 + index)
    with torch.no_grad():
        expected = stepped + layer.D.view(-1, 1, 1, 1) * signal
        assert dense.relative(layer(signal), expected) < 1e-10


@pytest.mark.usefixtures("form")
def test_toeplitz_matrix_entry_by_entry():
    taps = torch.randn(2, 3, 8)  # lags -4 ... 3
    matrix = conv.toeplitz(taps, 6)
    for i, j in itertools.product(range(6), range(6)):
        lag = i - j
        expected = taps[..., lag + 4] if -4 <= lag < 4 else torch.zeros(2, 3)
        assert torch.equal(matrix[..., i, j], expected)


@pytest.mark.usefixtures("form")
def test_gradient_of_a_toeplitz_matrix():
    taps = torch.randn(2, 3, 8).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: conv.toeplitz(x, 6), taps)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shortest_axes(dense, size):
    layer = layer_of((size, size)).double()
    signal = torch.randn(1, 3, size, size).double()
    with torch.no_grad():
        for engine in ("matmul", "fft"):
            layer.engine = engine
            assert dense.relative(layer(signal), direct(layer, signal)) < 1e-12


@pytest.mark.parametrize("minimum", [1, 2, 11, 97, 113])
def test_fft_lengths_are_even_and_smooth(minimum):
    length = conv._fast_length(minimum)
    assert length >= minimum
    assert length % 2 == 0
    for prime in (2, 3, 5, 7):
        while length % prime == 0:
            length //= prime
    assert length == 1


def test_auto_chooses_products_for_images_and_the_fft_for_long_signals():
    assert layer_of((56, 56)).choose_engine((56, 56)) == "matmul"
    assert layer_of((15, 56, 56)).choose_engine((15, 56, 56)) == "matmul"
    assert layer_of((16384,)).choose_engine((16384,)) == "fft"


def test_auto_takes_the_cheaper_of_the_counted_operations():
    """For a batch of 64: products with Toeplitz matrices, or transforms of padded signals."""
    draw, chosen = random.Random(0), set()
    for _ in range(3000):
        sizes = [round(math.exp(draw.uniform(0, 8))) for _ in range(draw.randint(1, 3))]
        lengths = [draw.randint(1, size) for size in sizes]
        channels, dense = draw.randint(1, 8), draw.random() < 0.5
        groups, rank = draw.randint(1, 4), draw.randint(1, 3)
        samples, padded = 64 * math.prod(sizes), 64.0
        for size, length in zip(sizes, lengths, strict=True):
            padded *= size + length
        products = groups * rank * (0.06 * samples * sum(sizes) + 10 * sum(n**2 for n in sizes))
        # A dense layer transforms every input once and every output once.
        transforms = (channels + groups) / (2 * channels) if dense else groups
        further = groups * rank if dense else groups * (rank - 1)
        expected = products < padded * (30 * transforms + 4 * further)
        mixing = conv.Mixing(groups, rank, dense)
        assert prefers_matmul(sizes, lengths, channels, mixing) == expected
        chosen.add(expected)
    assert chosen == {True, False}


@pytest.mark.usefixtures("form")
def test_the_incoming_gradient_is_not_written_into():
    layer, signal = layer_of((4, 5), engine="matmul"), torch.randn(2, 3, 4, 5, requires_grad=True)
    y = layer(signal)
    gradient = torch.randn_like(y)  # in the layout of the output, where it needs no copy
    kept = gradient.clone()
    y.backward(gradient)
    assert torch.equal(gradient, kept)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    "network",
    [
        lambda layer, x: torch.nn.Sequential(layer, torch.nn.ReLU(inplace=True))(x),
        lambda layer, x: layer(x).add_(x),
        lambda layer, x: layer(x).mul_(2)[:, :1].zero_(),
    ],
)
@pytest.mark.parametrize(
    ("engine", "count", "last"),
    [("fft", 2, False), ("matmul", 1, False), ("matmul", 2, False), ("matmul", 3, True)],
)
def test_in_place_operations_after_the_layer(network, engine, count, last):
    layer = layer_of(SHAPES[count], engine=engine, basis="legs")
    signal = torch.randn(2, 3, *SHAPES[count])
    if last:
        signal = signal.movedim(1, -1).contiguous().movedim(-1, 1)
    expected = layer(signal).detach()
    network(layer, signal.requires_grad_()).sum().backward()
    assert torch.isfinite(signal.grad).all()
    assert torch.equal(layer(signal), expected)
