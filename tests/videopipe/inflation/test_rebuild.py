"""Our own backbones built again with three axes, with the 2D weights."""

from typing import Any

import pytest
import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.backbones import build
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.rebuild import VideoNetwork, can_rebuild, rebuild

TINY = {"depths": (1, 1, 1, 1), "widths": (8, 12, 16, 16), "image_size": 32, "num_classes": 5}
S4ND_EVERYWHERE = {"mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "convnext": ("convnext_tiny", TINY),
    "s4nd": ("convnext_tiny", TINY | {"mixer": "s4nd"}),
    "s4nd everywhere": ("convnext_tiny", TINY | S4ND_EVERYWHERE),
    "isotropic s4nd": ("isotropic", {"depth": 2, "width": 8, "image_size": 16}),
    "isotropic conv": ("isotropic", {"depth": 2, "width": 8, "image_size": 16, "mixer": "conv"}),
    "isotropic dense": ("isotropic", {"depth": 2, "width": 8, "image_size": 16, "mixer": "dense"}),
}


def make(name: str) -> tuple[nn.Module, ModelCard]:
    architecture, options = NETWORKS[name]
    network = build(architecture, **options).eval()
    for name, parameter in network.named_parameters():
        if parameter.ndim == 1:  # a layer scale of 1e-6 would hide every block
            nn.init.normal_(parameter, mean=0.5, std=0.3)
        elif ".spaces." not in name:
            nn.init.normal_(parameter, std=0.2)
    return network, ModelCard(architecture=architecture, options=options)


def grow(name: str, method: str, **options: Any) -> tuple[nn.Module, VideoNetwork]:
    network, card = make(name)
    settings = InflationOptions(method=method, num_frames=6, **options)
    assert can_rebuild(card, settings)
    return network, rebuild(network, card, settings)


@pytest.mark.parametrize(
    ("name", "method", "options"),
    [
        ("convnext", "i3d", {}),
        ("convnext", "i3d", {"temporal_patch": 2, "temporal_kernel": 5}),
        ("convnext", "s3d", {"temporal_patch": 2}),
        ("convnext", "center", {"temporal_patch": 2}),
        ("s4nd", "s4nd", {"temporal_patch": 2, "length": 4.0}),
        ("s4nd", "s4nd", {"basis": "hippo", "copies": None}),
        ("s4nd everywhere", "s4nd", {"temporal_patch": 2}),
        ("isotropic s4nd", "s4nd", {}),
        ("isotropic conv", "i3d", {}),
        ("isotropic dense", "center", {}),
    ],
)
def test_still_video_gives_2d_logits(name: str, method: str, options: dict[str, Any]) -> None:
    network, video = grow(name, method, **options)
    image = torch.randn(2, 3, *network.config.input_size)
    with torch.no_grad():
        expected = network(image)
        actual = video.network(image[:, :, None].expand(-1, -1, 6, -1, -1))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_zero_padding_changes_the_ends_of_a_still_video() -> None:
    network, video = grow("convnext", "i3d", padding="zeros")
    image = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        actual = video.network(image[:, :, None].expand(-1, -1, 6, -1, -1))
    assert not torch.allclose(actual, network(image), atol=1e-2)


def test_spatial_axes_stay_bit_for_bit() -> None:
    network, video = grow("s4nd", "s4nd", basis="fourier")
    before, after = network.state_dict(), video.network.state_dict()
    axes = [name for name in after if ".spaces." in name]
    kept = [name for name in axes if ".spaces.0." not in name]
    assert len(kept) == 2 * len([name for name in axes if ".spaces.0." in name])
    for name in kept:
        assert torch.equal(after[name], before[video.origin[name]])
        axis = int(name.split(".spaces.")[1][0])
        assert f".spaces.{axis - 1}." in video.origin[name]


@pytest.mark.parametrize(("scale", "factor"), [("length", 1 / 2), ("none", 1.0)])
def test_patch_is_repeated(scale: str, factor: float) -> None:
    network, video = grow("convnext", "i3d", temporal_patch=2, scale=scale)
    weight = network.stem.conv.weight.detach()
    for tap in video.network.stem.conv.weight.unbind(2):
        torch.testing.assert_close(tap, weight * factor)


@pytest.mark.parametrize("method", ["i3d", "center"])
def test_kernels_are_repeated_or_in_the_middle(method: str) -> None:
    """A still video gives the same output for a kernel at any lag."""
    network, video = grow("convnext", method, temporal_patch=2, temporal_kernel=5)
    before, after = network.state_dict(), video.network.state_dict()
    grown = [name for name in after if after[name].ndim == 5]
    assert len(grown) == 8  # the stem, three downsampling layers, four blocks
    for name in grown:
        source, taps = before[video.origin[name]], after[name].unbind(2)
        centred = method == "center" and len(taps) == 5
        shares = [0.0, 0.0, 1.0, 0.0, 0.0] if centred else [1 / len(taps)] * len(taps)
        for tap, share in zip(taps, shares, strict=True):
            torch.testing.assert_close(tap, share * source)


def test_paper_start_is_a_gain_of_two_before_the_skip() -> None:
    """REFERENCE 4: 1 at lag 0 and 1 at lag -1, so that a still video doubles."""
    _, video = grow("s4nd", "s4nd", start="paper", basis="legs", length=1.0)
    space = video.network.stages[0].blocks[0].mixer.spaces[0]
    taps = space.taps(6)[0]
    expected = torch.zeros(12)
    expected[5] = expected[6] = 1
    torch.testing.assert_close(taps, expected.expand_as(taps), rtol=1e-3, atol=1e-3)


def test_everything_is_trainable_and_moves() -> None:
    _, video = grow("s4nd", "s4nd")
    network = video.network.train()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    start = {name: p.detach().clone() for name, p in network.named_parameters()}
    for _ in range(3):
        optimiser.zero_grad()
        network(torch.randn(2, 3, 6, 32, 32)).square().sum().backward()
        optimiser.step()
    time = [name for name in start if ".spaces.0." in name]
    assert time
    for name in time:
        assert not torch.equal(start[name], network.get_parameter(name)), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("convnext", {"method": "s4nd"}),
        ("convnext", {"method": "s3d", "temporal_weights": "channel"}),
        ("convnext", {"method": "i3d", "layers": "depthwise"}),
        ("convnext", {"method": "i3d", "temporal_pool": ("stages.0",)}),
        ("s4nd", {"method": "i3d"}),
        ("isotropic conv", {"method": "i3d", "temporal_kernel": 5}),
        ("isotropic s4nd", {"method": "s4nd", "temporal_patch": 2}),
    ],
)
def test_what_the_architecture_cannot_do_is_folded(name: str, options: dict[str, Any]) -> None:
    architecture, settings = NETWORKS[name]
    card = ModelCard(architecture=architecture, options=settings)
    assert not can_rebuild(card, InflationOptions(**options))


@pytest.mark.parametrize(
    ("mixer", "method", "options", "parameters"),
    [
        ("conv", "i3d", {}, 28_513_107),
        ("conv", "s3d", {}, 27_859_406),
        ("s4nd", "s4nd", {"copies": None, "basis": "hippo"}, 31_381_587),
    ],
)
def test_parameters_of_the_papers_table(
    mixer: str, method: str, options: dict[str, Any], parameters: int
) -> None:
    settings = {"num_classes": 51, "mixer": mixer}
    card = ModelCard(architecture="convnext_tiny", options=settings)
    network = build("convnext_tiny", **settings)
    choices = InflationOptions(method=method, temporal_patch=2, **options)
    video = rebuild(network, card, choices).network
    assert sum(parameter.numel() for parameter in video.parameters()) == parameters


def test_inception_becomes_inception_i3d() -> None:
    network = build("inception", num_classes=400).eval()
    card = ModelCard(architecture="inception", options={"num_classes": 400})
    video = rebuild(network, card, InflationOptions(method="i3d", num_frames=8))
    assert video.card.architecture == "inception_i3d"
    public = build("inception_i3d")
    shapes = {name: tensor.shape for name, tensor in public.state_dict().items()}
    assert shapes == {name: tensor.shape for name, tensor in video.network.state_dict().items()}
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = network(image)
        actual = video.network(image[:, :, None].expand(-1, -1, 8, -1, -1))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
