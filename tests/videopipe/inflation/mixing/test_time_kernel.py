"""Mixing time by a matrix is a convolution along time."""

from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from s4nd import S4ND
from s4nd.axis import Padding, Start
from s4nd.kernels.bases import BASES
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.folding.time_product import multiply
from videopipe.inflation.mixing.state_space import state_space_kernel
from videopipe.inflation.mixing.time_kernel import TapKernel, TimeMixing, time_matrix
from videopipe.inflation.options import Basis, InflationOptions

CLIPS, STEPS, CHANNELS = 2, 7, 4
PADDINGS = {"replicate": "replicate", "zeros": "constant"}


def convolve(signal: Tensor, taps: Tensor, padding: str) -> Tensor:
    """(clips, channels, time, anything) with one kernel per channel, by torch's own convolution."""
    left = (taps.shape[1] - 1) // 2
    clips, channels, steps, rest = signal.shape
    rows = signal.permute(0, 3, 1, 2).reshape(clips * rest, channels, steps)
    ends = (left, taps.shape[1] - 1 - left)
    rows = functional.pad(rows, ends, mode=PADDINGS[padding])
    mixed = functional.conv1d(rows, taps[:, None], groups=channels)
    return mixed.view(clips, rest, channels, steps).permute(0, 2, 3, 1)


@pytest.mark.parametrize("padding", ["replicate", "zeros"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 13])
@pytest.mark.parametrize("kernels", [1, CHANNELS])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_feature_maps_are_convolved_along_time(
    padding: str, length: int, kernels: int, layout: torch.memory_format
) -> None:
    taps = torch.randn(kernels, length)
    batch = FoldedBatch(CLIPS, STEPS)
    folded = torch.randn(CLIPS * STEPS, CHANNELS, 3, 5).contiguous(memory_format=layout)
    mixed = TimeMixing(TapKernel(taps), batch, padding=padding)(folded)
    signal = folded.reshape(CLIPS, STEPS, CHANNELS, 15).transpose(1, 2)
    expected = convolve(signal, taps.expand(CHANNELS, -1), padding)
    actual = mixed.reshape(CLIPS, STEPS, CHANNELS, 15).transpose(1, 2)
    torch.testing.assert_close(actual, expected)
    assert mixed.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("channel_dim", [1, -1])
def test_gradients_are_those_of_the_plain_product(channel_dim: int) -> None:
    shape = (6, 3, 5) if channel_dim == 1 else (6, 5, 3)
    folded = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    matrix = torch.randn(3, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, f: multiply(m, f, 2, channel_dim), (matrix, folded))
    equation = "cts,bscp->btcp" if channel_dim == 1 else "cts,bspc->btpc"
    expected = torch.einsum(equation, matrix, folded.view(2, 3, *shape[1:]))
    torch.testing.assert_close(multiply(matrix, folded, 2, channel_dim), expected.reshape(shape))


@pytest.mark.parametrize("parts", [1, 4])
def test_tokens_and_windows_keep_their_places(parts: int) -> None:
    taps = torch.randn(CHANNELS, 3)
    batch = FoldedBatch(CLIPS, STEPS)
    folded = torch.randn(CLIPS * STEPS * parts, 6, CHANNELS)  # tokens, channels last
    mixed = TimeMixing(TapKernel(taps), batch, channel_dim=-1)(folded)
    shape = (CLIPS, STEPS, parts * 6, CHANNELS)
    expected = convolve(folded.view(shape).permute(0, 3, 1, 2), taps, "replicate")
    torch.testing.assert_close(mixed.view(shape).permute(0, 3, 1, 2), expected)


def test_after_pooling_there_are_fewer_steps() -> None:
    taps = torch.randn(1, 3)
    folded = torch.randn(CLIPS * (STEPS // 2), CHANNELS, 2, 2)
    pooled = TimeMixing(TapKernel(taps), FoldedBatch(CLIPS, STEPS), reduction=2)(folded)
    plain = TimeMixing(TapKernel(taps), FoldedBatch(CLIPS, STEPS // 2))(folded)
    assert torch.equal(pooled, plain)


def test_replicate_padding_keeps_the_gain_in_every_row() -> None:
    kernel = torch.rand(CHANNELS, 9)
    rows = time_matrix(kernel, 4, "replicate").sum(-1)
    torch.testing.assert_close(rows, kernel.sum(-1, keepdim=True).expand(-1, 4))
    assert (time_matrix(kernel, 4, "zeros").sum(-1) < rows).all()


@pytest.mark.parametrize("rate", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("start", "padding"),
    [("random", "zeros"), ("random", "replicate"), ("difference", "replicate")],
)
def test_state_space_kernel_is_the_time_axis_of_s4nd(
    rate: float, bidirectional: bool, start: Start, padding: Padding
) -> None:
    options = InflationOptions(
        num_frames=STEPS,
        start=start,
        basis="legs",
        state=8,
        bidirectional=bidirectional,
        padding=padding,
    )
    kernel = state_space_kernel(CHANNELS, 1, options)
    layer = S4ND(CHANNELS, [kernel.axis.config])
    layer.spaces[0].load_state_dict(kernel.axis.state_dict())
    torch.nn.init.zeros_(layer.D)
    mixing = TimeMixing(kernel, FoldedBatch(CLIPS, STEPS, rate), padding=padding)
    folded = torch.randn(CLIPS * STEPS, CHANNELS)
    expected = layer(folded.view(CLIPS, STEPS, CHANNELS).transpose(1, 2), rate)
    actual = mixing(folded).view(CLIPS, STEPS, CHANNELS).transpose(1, 2)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("start", ["difference", "identity", "deterministic"])
def test_starts_keep_a_still_video(start: str, length: float) -> None:
    options = InflationOptions(num_frames=STEPS, start=start, basis="legs", length=length)
    kernel = state_space_kernel(CHANNELS, 1, options)
    still = torch.randn(1, CHANNELS, 2, 2).expand(STEPS, -1, -1, -1)
    mixed = TimeMixing(kernel, FoldedBatch(1, STEPS))(still)
    torch.testing.assert_close(mixed, still, rtol=1e-5, atol=1e-5)


def test_identity_is_a_delta_of_any_length_and_the_paper_doubles() -> None:
    options = InflationOptions(num_frames=STEPS, length=4.0, start="identity")
    moving = torch.randn(STEPS, CHANNELS, 2, 2)
    mixed = TimeMixing(state_space_kernel(CHANNELS, 1, options), FoldedBatch(1, STEPS))(moving)
    torch.testing.assert_close(mixed, moving)
    paper = InflationOptions(num_frames=STEPS, length=1.0, start="paper", basis="legs")
    still = torch.randn(1, CHANNELS).expand(STEPS, -1)
    doubled = TimeMixing(state_space_kernel(CHANNELS, 1, paper), FoldedBatch(1, STEPS))(still)
    torch.testing.assert_close(doubled, 2 * still, rtol=1e-4, atol=1e-4)


def test_length_fixes_the_step() -> None:
    for length, step in ((20.0, 0.1), (4.0, 0.5), (2.0, 1.0), (1.0, 2.0)):
        kernel = state_space_kernel(CHANNELS, 1, InflationOptions(length=length))
        torch.testing.assert_close(kernel.axis.log_dt.exp(), torch.full((CHANNELS, 1), step))


def test_evaluation_reuses_its_matrix_until_a_parameter_changes() -> None:
    kernel = state_space_kernel(CHANNELS, 1, InflationOptions(num_frames=STEPS, start="random"))
    mixing = TimeMixing(kernel, FoldedBatch(1, STEPS)).eval()
    moving = torch.randn(STEPS, CHANNELS)
    with torch.no_grad():
        first = mixing(moving)
        assert mixing._made is not None
        assert mixing._matrix(STEPS) is mixing._made[1]
        kernel.axis.C.mul_(2)
        torch.testing.assert_close(mixing(moving), 2 * first, rtol=1e-4, atol=1e-5)
        mixing.batch.rate = 2.0
        assert not torch.allclose(mixing(moving), 2 * first, atol=1e-3)
    assert mixing(moving).requires_grad


def test_nothing_is_kept_while_a_cuda_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor made then has no values before the graph is replayed."""
    kernel = state_space_kernel(CHANNELS, 1, InflationOptions(num_frames=STEPS, start="random"))
    mixing = TimeMixing(kernel, FoldedBatch(1, STEPS)).eval()
    with torch.no_grad(), monkeypatch.context() as capture:
        capture.setattr(torch.cuda, "is_initialized", lambda: True)
        capture.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        mixing(torch.randn(STEPS, CHANNELS))
    assert mixing._made is None


def test_options_accept_every_basis() -> None:
    assert set(get_args(Basis)) == set(BASES)
