"""Initial kernels along time, and what a network takes as input."""

import pytest
import torch
from torch import nn

from videopipe.inflation.mixing.replacements import _taps
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.planning.layer_plan import input_channels

BOX = [1 / 3] * 3
TAPS: dict[str, tuple[dict[str, object], list[float]]] = {
    "center": ({"method": "center"}, [0, 1, 0]),
    "center of five": ({"method": "center", "temporal_kernel": 5}, [0, 0, 1, 0, 0]),
    "center, causal": ({"method": "center", "bidirectional": False}, [0, 0, 1]),
    "i3d": ({"method": "i3d"}, BOX),
    "i3d, unscaled": ({"method": "i3d", "scale": "none"}, [1, 1, 1]),
    "s3d": ({"method": "s3d", "scale": "none"}, BOX),
}


@pytest.mark.parametrize("case", TAPS)
def test_kernels_start_as_a_delta_or_a_box(case: str) -> None:
    options, expected = TAPS[case]
    for row in _taps(5, InflationOptions(**options)):  # type: ignore[arg-type]
        torch.testing.assert_close(row, torch.tensor(expected, dtype=row.dtype))


def test_adapters_start_uniform_as_a_convolution_of_torch() -> None:
    taps = _taps(20_000, InflationOptions(method="adapter", temporal_kernel=4))
    assert taps.shape == (20_000, 4)
    assert 0.499 < taps.abs().max() <= 0.5  # 1 / √length
    assert taps.std().item() == pytest.approx(0.5 / 3**0.5, rel=0.02)


def test_input_channels_are_those_of_the_first_convolution() -> None:
    assert input_channels(nn.Sequential(nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3)), 8) == 1
    assert input_channels(nn.Conv2d(5, 8, 3), 8) == 5
    assert input_channels(nn.Linear(1, 1), 8) == 3
    patches = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(48, 8, 1))
    assert input_channels(patches, 8) == 3, "the convolution sees pixels moved into channels"
    patches = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(16, 8, 1))
    assert input_channels(patches, 8) == 1
    patches = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(20, 8, 1))
    assert input_channels(patches, 8) == 5
