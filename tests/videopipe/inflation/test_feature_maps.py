"""Feature maps of inflated networks: the levels of timm, or any module that gives maps."""

from collections import OrderedDict
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from pretrained_2d.networks.backbones import build
from videopipe.inflation import inflate
from videopipe.inflation.options import InflationError

PIXELS, FRAMES = 64, 4
SMALL: dict[str, Any] = {"num_frames": FRAMES, "image_size": PIXELS, "state": 8}
# With `forward_intermediates` and without; channels last; tokens; modules with flattened names.
NETWORKS: dict[str, dict[str, Any]] = {
    "test_resnet": {},
    "test_vit": {"img_size": PIXELS},
    "test_convnext": {},
    "test_efficientnet": {},
    "swin_tiny_patch4_window7_224": {"img_size": 224, "embed_dim": 24, "depths": (1, 1, 1, 1)},
    "densenet121": {"growth_rate": 4, "block_config": (1, 1, 1, 1)},
}


def still(images: Tensor) -> Tensor:
    return images[:, :, None].expand(-1, -1, FRAMES, -1, -1)


def made(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model(name, **NETWORKS[name], **options).eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_still_video_gives_the_maps_of_features_only(name: str) -> None:
    size = NETWORKS[name].get("img_size", PIXELS)
    video = inflate(made(name), **{**SMALL, "image_size": size}).eval()
    reference = made(name, features_only=True)
    theirs = {key.replace(".", "_"): value for key, value in made(name).state_dict().items()}
    reference.load_state_dict(
        {k: theirs[k.removeprefix("model.").replace(".", "_")] for k in reference.state_dict()}
    )
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = reference(images)
        indices = reference.feature_info.out_indices
        maps = video.features(still(images), indices)
    for index, map_2d, map_3d in zip(indices, expected, maps, strict=True):
        level = video.levels[index]
        if map_2d.shape[1] != level.channels:  # timm leaves channels last
            map_2d = map_2d.permute(0, 3, 1, 2)
        side = size // level.stride
        assert map_3d.shape == (2, level.channels, FRAMES, side, side)
        for step in map_3d.unbind(2):
            torch.testing.assert_close(step, map_2d, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_networks_that_return_lists_of_maps(name: str) -> None:
    video = inflate(made(name, features_only=True), **SMALL).eval()
    images = torch.randn(2, 3, PIXELS, PIXELS)
    with torch.no_grad():
        expected = made(name, features_only=True)(images)
        maps = video(still(images))
    assert len(maps) == len(expected) > 1
    for map_2d, map_3d in zip(expected, maps, strict=True):
        wide = map_2d[:, :, None].expand_as(map_3d)
        torch.testing.assert_close(map_3d, wide, rtol=1e-4, atol=1e-5)


class Segmenter(nn.Module):
    """A map of each pixel, alone or in a dictionary as torchvision's networks give it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1))

    def forward(self, images: torch.Tensor) -> Any:
        maps = self.layers(images)
        if self.kind == "map":
            return maps
        return OrderedDict(out=maps, classes=maps.mean((2, 3)), parts=[maps], size=PIXELS)


@pytest.mark.parametrize("kind", ["map", "dictionary"])
def test_maps_of_pixels_keep_time(kind: str) -> None:
    network = Segmenter(kind)
    images = torch.randn(2, 3, PIXELS, PIXELS)
    with torch.no_grad():
        expected = network(images)
        video = inflate(network, **SMALL).eval()
        found = video(still(images))
    if kind == "dictionary":
        assert list(found) == ["out", "classes", "parts", "size"]
        assert isinstance(found, OrderedDict)
        torch.testing.assert_close(found["classes"], expected["classes"], rtol=1e-4, atol=1e-5)
        assert torch.equal(found["parts"][0], found["out"])
        assert found["size"] == PIXELS
        found, expected = found["out"], expected["out"]
    assert found.ndim == 5
    wide = expected[:, :, None].expand_as(found)
    torch.testing.assert_close(found, wide, rtol=1e-4, atol=1e-5)


def test_levels_by_name_and_number_through_a_checkpoint_network() -> None:
    video = inflate(build("timm/test_resnet", num_classes=0), method="i3d", **SMALL).eval()
    clip = torch.randn(1, 3, FRAMES, PIXELS, PIXELS)
    names = [level.name for level in video.levels]
    by_name = video.features(clip, [names[-1], names[1]])
    by_number = video.features(clip, [-1, 1])
    for one, other in zip(by_name, by_number, strict=True):
        assert torch.equal(one, other)
    assert [maps.shape[1] for maps in video.features(clip)] == [
        level.channels for level in video.levels
    ]


def test_modules_of_any_network_and_pooled_time() -> None:
    network = torchvision.models.resnet18(weights=None)
    video = inflate(network, temporal_pool=("layer3",), **SMALL).eval()
    first, third = video.features(torch.randn(1, 3, FRAMES, PIXELS, PIXELS), ["layer1", "layer3"])
    assert first.shape == (1, 64, 4, 16, 16)
    assert third.shape == (1, 256, 2, 4, 4)


def test_gradients_reach_time_through_maps() -> None:
    video = inflate(made("test_resnet"), **SMALL).train()
    maps = video.features(torch.randn(1, 3, FRAMES, PIXELS, PIXELS))
    sum(level.square().sum() for level in maps).backward()
    reached = [p.grad for name, p in video.named_parameters() if ".time." in name]
    assert reached
    assert all(gradient is not None for gradient in reached)


def test_wrong_names_list_the_levels() -> None:
    clip = torch.randn(1, 3, FRAMES, PIXELS, PIXELS)
    video = inflate(made("test_resnet"), **SMALL)
    with pytest.raises(InflationError, match=r"has no module 'layer9'; its levels are .*layer1"):
        video.features(clip, ["layer9"])
    with pytest.raises(InflationError, match="there is no feature level 9; its levels are"):
        video.features(clip, [9])
    with pytest.raises(InflationError, match=r"fc gives .*, not maps of shape"):
        video.features(clip, ["fc"])
    with pytest.raises(InflationError, match="does not name its feature levels; give names of"):
        inflate(torchvision.models.resnet18(weights=None), **SMALL).features(clip)
