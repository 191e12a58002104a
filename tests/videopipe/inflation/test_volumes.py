"""Volumes: other numbers of channels, words of depth, and the example of the page."""

import re
from pathlib import Path
from typing import Any

import pytest
import timm
import torch

from pretrained_2d.checkpoints.foreign import Adoption, adopt
from videopipe.inflation import InflationOptions, boring_video_test, inflate
from videopipe.inflation.operation import inflate_checkpoint
from videopipe.models import load_model

PAGE = Path(__file__).resolve().parents[3] / "docs" / "volumes.md"
SMALL: dict[str, Any] = {"num_frames": 4, "image_size": 32, "axis": "depth", "state": 8}


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("name", ["test_resnet", "test_efficientnet", "test_convnext"])
def test_any_number_of_channels(name: str, channels: int) -> None:
    def network() -> Any:
        torch.manual_seed(0)
        return timm.create_model(name, in_chans=channels, num_classes=3).eval()

    volume = inflate(network(), method="i3d", **SMALL).eval()
    images = torch.randn(2, channels, 32, 32)
    proof = boring_video_test(network(), volume, volume.plan.options, images)
    assert proof.exact
    assert str(proof).startswith("boring volume: exact")
    assert str(proof).endswith("2 images repeated over 4 slices")
    message = rf"expected volumes of shape \(batch, {channels}, depth, height, width\)"
    with pytest.raises(ValueError, match=message):
        volume(torch.randn(1, 3, 4, 32, 32))


def test_depth_is_halved_with_height_and_width() -> None:
    network = timm.create_model("test_resnet", in_chans=1, num_classes=0)
    pools = ("layer2", "layer3")
    options = InflationOptions(axis="depth", num_frames=16, temporal_patch=2, temporal_pool=pools)
    volume = inflate(network, options, image_size=32).eval()
    with torch.no_grad():
        maps = volume.features(torch.randn(1, 1, 16, 32, 32))
    shapes = [tuple(level.shape[2:]) for level in maps]
    assert shapes == [(8, 16, 16), (8, 8, 8), (4, 4, 4), (2, 2, 2), (2, 1, 1)]


def test_an_adopted_network_of_one_channel_gives_maps_of_volumes(tmp_path: Path) -> None:
    state = timm.create_model("test_resnet", in_chans=1, num_classes=3).state_dict()
    torch.save(state, tmp_path / "ct.pth")
    request = Adoption(
        checkpoint=tmp_path / "ct.pth", architecture="timm/test_resnet", image_size=32, head="drop"
    )
    adopt(request, tmp_path / "flat")
    options = InflationOptions(method="i3d", num_frames=4, axis="depth")
    report = inflate_checkpoint(tmp_path / "flat", tmp_path / "deep", options)
    assert report.proof.exact
    volume_network, card = load_model(tmp_path / "deep")
    assert len(card.preprocessing.mean) == 1
    volume = torch.randn(1, 1, 4, 32, 32)
    with torch.no_grad():
        maps = volume_network.features(volume)
        assert volume_network.embed(volume).shape == (1, 96)
    assert [level.shape[1] for level in maps] == [one.channels for one in volume_network.levels]
    assert all(level.shape[2] == 4 for level in maps)


@pytest.mark.slow
def test_the_page_segments_balls(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, {"__name__": "volumes"})
    printed = capsys.readouterr().out
    assert "FeatureLevel(name='layer4', channels=96, stride=32)" in printed
    found = re.search(r"Dice on new volumes: (\S+)", printed)
    assert found is not None
    assert float(found[1]) > 0.8
