import pytest
import torch

import s4nd
from s4nd import S4ND, AxisConfig


def planar(**options):
    axes = [AxisConfig(6, state=8), AxisConfig(7, state=8, basis="legs", bandlimit=0.4)]
    return S4ND(4, axes, **options)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"multiplier": 2}, {"out_channels": 3}])
def test_other_axes_keep_their_weights_bit_for_bit(position, options):
    layer = planar(**options)
    grown = s4nd.inflate(layer, AxisConfig(5, state=8), position=position)
    assert len(grown.axes) == 3
    kept = [space for index, space in enumerate(grown.spaces) if index != position]
    for old, new in zip(layer.spaces, kept, strict=True):
        assert old.config == new.config
        for (name, before), (other, after) in zip(
            old.named_parameters(), new.named_parameters(), strict=True
        ):
            assert name == other
            assert torch.equal(before, after)
            assert before.data_ptr() != after.data_ptr()
        assert torch.equal(old(6), new(6))
    assert torch.equal(layer.D, grown.D)


@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("length", [None, 20, 1])
@pytest.mark.parametrize("frames", [1, 5])
def test_identity_axis_equals_the_planar_layer_on_each_frame(dense, copies, length, frames):
    """Up to rounding, because some processors sum products of other shapes in another order."""
    layer = planar(engine="matmul").eval()
    time = AxisConfig(5, state=8, copies=copies, length=length, start="identity")
    assert_equal_on_frames(dense, layer, s4nd.inflate(layer, time), frames)


@pytest.mark.parametrize("size", [7, 56])
def test_identity_axis_of_image_size(dense, size):
    layer = S4ND(16, [AxisConfig(size), AxisConfig(size)]).eval()
    assert_equal_on_frames(
        dense, layer, s4nd.inflate(layer, AxisConfig(8, start="identity", copies=16)), 8
    )


def assert_equal_on_frames(dense, layer, grown, frames):
    sizes = [axis.size for axis in layer.axes]
    video = torch.randn(2, layer.channels, frames, *sizes)
    with torch.no_grad():
        whole = grown(video)
        for frame in range(frames):
            image = video[:, :, frame]
            difference = (whole[:, :, frame] - layer(image)).abs()
            assert (difference <= dense.rounding(layer, image)).all()


def test_deterministic_axis_keeps_a_still_video_away_from_the_ends():
    layer = planar()
    time = AxisConfig(21, state=64, basis="legs", length=2, start="deterministic")
    grown = s4nd.inflate(layer, time)
    image = torch.randn(1, 4, 6, 7)
    with torch.no_grad():
        middle = grown(image[:, :, None].expand(-1, -1, 21, -1, -1))[:, :, 10]
        torch.testing.assert_close(middle, layer(image), rtol=1e-3, atol=1e-3)


def test_mode_dtype_and_bandlimit_carry_over():
    layer = planar().double().eval()
    layer.bandlimit = [0.3, None]
    grown = s4nd.inflate(layer, AxisConfig(5, state=8, bandlimit=0.9))
    assert not grown.training
    assert grown.D.dtype == torch.float64
    assert grown.bandlimit == (0.9, 0.3, None)


def test_bad_position_is_named():
    with pytest.raises(ValueError, match="position must be between 0 and 2, got 3"):
        s4nd.inflate(planar(), AxisConfig(5), position=3)
