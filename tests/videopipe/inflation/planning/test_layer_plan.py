"""What a network takes, before its layers are planned."""

import pytest
from torch import Tensor, nn

from videopipe.inflation.planning.layer_plan import input_channels


class Named(nn.Module):
    """Like networks of timm, it names its first convolution, which need not come first."""

    def __init__(self, name: str | tuple[str, ...] | None, channels: int) -> None:
        super().__init__()
        self.pretrained_cfg = {"first_conv": name}
        self.late = nn.Conv2d(8, 2, 1)
        self.stem = nn.Conv2d(channels, 8, 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.late(self.stem(images)).mean((2, 3))


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_the_convolution_that_is_named_tells_the_channels(channels: int) -> None:
    assert input_channels(Named("stem", channels), 8) == channels
    assert input_channels(Named(("stem",), channels), 8) == channels


def test_without_a_name_the_first_one_that_takes_an_image() -> None:
    assert input_channels(Named(None, 2), 8) == 2  # 8 of another layer, of which a quarter fits
    assert input_channels(nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(48, 4, 1)), 8) == 3
    assert input_channels(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), 8) == 3
