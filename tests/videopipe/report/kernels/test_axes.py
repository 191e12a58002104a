from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from s4nd import S4ND, AxisConfig
from videopipe.report.kernels import drawing
from videopipe.report.kernels.axes import draw_axes, response, seconds_per_step
from videopipe.report.kernels.space import plane_kernels


def model() -> nn.Module:
    axes = (
        AxisConfig(6, length=3.0),
        AxisConfig(8, length=4.0, bandlimit=0.5),
        AxisConfig(8, length=4.0),
    )
    return nn.Sequential(nn.Identity(), S4ND(4, axes))


def test_every_axis_is_found_with_its_name_and_length() -> None:
    drawn = draw_axes(model())
    assert [(one.layer, one.axis) for one in drawn] == [
        ("1", "time"),
        ("1", "height"),
        ("1", "width"),
    ]
    assert [one.bandlimit for one in drawn] == [None, 0.5, None]
    np.testing.assert_allclose(drawn[0].lengths, 3.0, rtol=1e-6)


def test_taps_are_what_the_layer_convolves_with() -> None:
    net = model()
    layer = net[1]
    drawn = draw_axes(net)
    kernel = layer.kernel((6, 8, 8)).detach()  # (channels, 11, 15, 15)
    outer = torch.einsum("ct,ch,cw->cthw", *(torch.from_numpy(one.taps).float() for one in drawn))
    torch.testing.assert_close(outer, kernel, rtol=1e-4, atol=1e-5)
    assert all(len(one.lags) == one.taps.shape[1] and one.lags[one.size - 1] == 0 for one in drawn)


def test_response_at_frequency_zero_is_the_sum_of_taps() -> None:
    one = draw_axes(model())[0]
    frequency, size = response(one)
    assert frequency[0] == 0
    assert frequency[-1] == pytest.approx(0.5)
    np.testing.assert_allclose(size[:, 0], np.abs(one.taps.sum(axis=1)), rtol=1e-6, atol=1e-9)


def test_a_step_lasts_its_share_of_the_clip() -> None:
    card = ModelCard(architecture="x", clip_seconds=2.0)
    assert seconds_per_step(card, 15) == pytest.approx(2 / 15)
    assert seconds_per_step(ModelCard(architecture="x"), 15) is None


def test_pictures_of_two_models_have_two_names_and_say_whose_cut_they_show() -> None:
    """Names are also the seeds of ids inside the drawings, which share one page."""
    axes = (AxisConfig(8, length=4.0), AxisConfig(8, length=4.0))
    plain = plane_kernels("one", nn.Sequential(S4ND(4, axes)))[0]
    limited = [replace(axis, bandlimit=0.4) for axis in axes]
    cut = plane_kernels("two", nn.Sequential(S4ND(4, limited)))[0]
    assert plain.name != cut.name
    assert "α = 0.2 (the layer has no bandlimit of its own" in plain.alt
    assert "α = 0.4 (this layer's own)" in cut.alt


def test_names_of_panels_leave_out_what_all_share() -> None:
    layers = [f"network.blocks.{n}.conv.time.kernel" for n in (0, 11)]
    assert drawing.panel_names(layers) == ["0", "11"]
    stem = "network.stem.time.kernel"
    assert drawing.panel_names([stem, layers[0]]) == ["stem", "blocks.0.conv"]
    assert drawing.panel_names([stem]) == [stem]
    assert drawing.panel_names(["space", "space.time"]) == ["space", "time"]
