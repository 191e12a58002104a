from typing import Any

import pytest
import torch
from torch import nn

from pretrained_2d import PretrainedError, build
from pretrained_2d.networks.backbones import BACKBONES

# The table of the paper's networks, counted exactly.
PARAMETERS: list[tuple[str, dict[str, Any], int]] = [
    ("convnext_tiny", {}, 28_589_128),
    ("convnext_tiny", {"mixer": "s4nd"}, 29_980_456),
    ("convnext_tiny", {"mixer": "s4nd", "stem": "s4nd"}, 30_007_057),
    ("convnext_tiny", {"mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"}, 29_409_457),
    ("convnext_micro", {"num_classes": 40}, 9_237_608),
    (
        "convnext_micro",
        {"num_classes": 40, "mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"},
        9_644_209,
    ),
    ("isotropic", {}, 5_282_826),
    ("isotropic", {"mixer": "conv"}, 2_158_602),
    ("isotropic", {"depth": 6, "width": 256}, 1_196_810),
    ("isotropic", {"depth": 6, "width": 512}, 3_964_170),
    ("vit_base", {}, 86_567_656),
    ("vit_base", {"mixer": "s4nd"}, 88_786_408),
    ("convnext_tiny", {"ndim": 3, "num_classes": 51}, 28_513_107),
    ("convnext_tiny", {"ndim": 3, "num_classes": 51, "mixer": "separable"}, 27_859_406),
    ("convnext_tiny", {"ndim": 3, "num_classes": 51, "mixer": "s4nd"}, 31_381_587),
    (
        "convnext_tiny",
        {"ndim": 3, "num_classes": 51, "mixer": "s4nd", "time_axis": {}},
        30_113_235,
    ),
    ("inception_i3d", {}, 12_689_984),
]

SMALL_CONVNEXT = {
    "depths": [1, 1, 2, 1],
    "widths": [8, 8, 16, 16],
    "image_size": 32,
    "num_frames": 4,
    "num_classes": 5,
    "layer_scale": 1.0,
}
SMALL_ISOTROPIC = {"depth": 2, "width": 8, "image_size": 8, "num_frames": 4, "num_classes": 5}
SMALL_VIT = {"depth": 2, "width": 12, "heads": 3, "image_size": 32, "num_classes": 5}
S4ND_EVERYWHERE = {"mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"}
FORMS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("convnext_tiny", {**SMALL_CONVNEXT}, (32, 32)),
    ("convnext_tiny", {**SMALL_CONVNEXT, "mixer": "s4nd"}, (32, 32)),
    ("convnext_tiny", {**SMALL_CONVNEXT, **S4ND_EVERYWHERE}, (32, 32)),
    ("convnext_tiny", {**SMALL_CONVNEXT, "ndim": 3}, (4, 32, 32)),
    ("convnext_tiny", {**SMALL_CONVNEXT, "ndim": 3, "mixer": "separable"}, (4, 32, 32)),
    ("convnext_tiny", {**SMALL_CONVNEXT, "ndim": 3, "mixer": "s4nd"}, (4, 32, 32)),
    ("convnext_micro", {**SMALL_CONVNEXT, "ndim": 3, **S4ND_EVERYWHERE}, (4, 32, 32)),
    ("convnext_micro", {**SMALL_CONVNEXT, "layer_scale": None}, (32, 32)),
    ("vit_base", {**SMALL_VIT}, (32, 32)),
    ("vit_base", {**SMALL_VIT, "mixer": "s4nd"}, (32, 32)),
    *(
        ("isotropic", {**SMALL_ISOTROPIC, "mixer": mixer, "ndim": ndim}, (4, 8, 8)[3 - ndim :])
        for mixer in ("s4nd", "conv", "dense")
        for ndim in (1, 2, 3)
    ),
    ("inception", {"num_classes": 5, "norm_scale": True}, (48, 48)),
    ("inception", {"num_classes": 5, "ndim": 3}, (4, 48, 48)),
    ("inception_i3d", {"num_classes": 5}, (8, 48, 48)),
    ("timm/test_resnet", {"num_classes": 5}, (64, 64)),
    ("timm/test_convnext", {"num_classes": 5, "drop_path": 0.1}, (160, 160)),
    ("torchvision/squeezenet1_1", {"num_classes": 5}, (64, 64)),
    ("torchvision/mc3_18", {"num_classes": 5}, (4, 32, 32)),
]


@pytest.mark.parametrize(("architecture", "options", "expected"), PARAMETERS)
def test_parameters_are_exactly_those_of_the_paper(architecture, options, expected) -> None:
    with torch.device("meta"):
        network = build(architecture, **options)
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


@pytest.mark.parametrize(("architecture", "options", "size"), FORMS)
def test_every_parameter_gets_a_finite_gradient(architecture, options, size) -> None:
    network = build(architecture, **options).train()
    signal = torch.randn(2, 3, *size)
    logits = network(signal)
    assert logits.shape == (2, 5)
    (logits * torch.randn_like(logits)).sum().backward()
    without = [n for n, p in network.named_parameters() if p.grad is None]
    assert without == []
    wild = [n for n, p in network.named_parameters() if not torch.isfinite(p.grad).all()]
    assert wild == []
    if architecture in BACKBONES:  # timm starts some branches at zero
        learns = [bool((p.grad != 0).any()) for p in network.parameters()]
        assert sum(learns) > 0.9 * len(learns)


@pytest.mark.parametrize(("architecture", "options", "size"), FORMS)
def test_the_head_classifies_what_embed_gives(architecture, options, size) -> None:
    network = build(architecture, **options).eval()
    signal = torch.randn(2, 3, *size)
    with torch.inference_mode():
        features = network.embed(signal)
        assert features.ndim == 2
        assert len(features) == 2
        if isinstance(network.head, nn.Linear):
            torch.testing.assert_close(network.head(features), network(signal))
        torch.testing.assert_close(network(signal), network(signal, rate=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ndim"), [(name, ndim) for name, b in BACKBONES.items() for ndim in b.ndims]
)
def test_full_size_forward_and_backward(name: str, ndim: int) -> None:
    network = build(name, ndim=ndim).train()
    pixels = {"vit_base": 224, "isotropic": 16}.get(name, 64)
    size = (8, pixels, pixels)[3 - ndim :]
    network(torch.randn(2, 3, *size)).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_rate_keeps_the_answer_when_the_grid_changes() -> None:
    # A smooth picture sampled twice as finely, at half the rate, gives S4ND nearly the same output.
    axis = {"state": 16, "basis": "legs", "bandlimit": 0.2, "dt_min": 0.1, "dt_max": 0.5}
    options = {**SMALL_ISOTROPIC, "image_size": 32, "axis": axis}
    network = build("isotropic", **options).eval()
    coarse, fine = _waves(32), _waves(64)
    with torch.inference_mode():
        base = network.embed(coarse)
        told = (network.embed(fine, rate=0.5) - base).norm() / base.norm()
        untold = (network.embed(fine) - base).norm() / base.norm()
    assert told < 0.1
    assert told < 0.25 * untold


def _waves(size: int) -> torch.Tensor:
    grid = (torch.arange(size) + 0.5) / size * 6
    return torch.stack([torch.sin(grid[:, None] + k * grid[None]) for k in range(3)])[None]


def test_one_rate_for_each_axis_reaches_s4nd() -> None:
    network = build("convnext_tiny", **{**SMALL_CONVNEXT, "ndim": 3, "mixer": "s4nd"}).eval()
    signal = torch.randn(1, 3, 4, 32, 32)
    with torch.inference_mode():
        same = network(signal, rate=(1.0, 1.0, 1.0))
        slower = network(signal, rate=(2.0, 1.0, 1.0))
        torch.testing.assert_close(network(signal), same)
        assert not torch.allclose(slower, same)
        with pytest.raises(ValueError, match="one number or one per axis"):
            network(signal, rate=(1.0, 1.0))


@pytest.mark.parametrize(
    ("architecture", "options", "message"),
    [
        ("convnext_tinny", {}, "did you mean 'convnext_tiny'"),
        ("timm/resnet19", {}, "did you mean 'resnet18'"),
        ("torchvision/mc3_19", {}, "did you mean 'mc3_18'"),
        ("torchvision/fasterrcnn_resnet50_fpn", {}, "no classifier named"),
        ("convnext_tiny", {"mixr": "s4nd"}, "no option 'mixr' .did you mean 'mixer'"),
        ("convnext_tiny", {"mixer": "attention"}, "takes conv, separable or s4nd"),
        ("convnext_tiny", {"ndim": 4}, "takes 2 or 3 axes, got ndim=4"),
        ("convnext_tiny", {"depths": [3, 3]}, "must have 4 entries"),
        ("convnext_tiny", {"mixer": "separable"}, "it needs ndim=3"),
        ("vit_base", {"ndim": 3}, "takes 2 axes, got ndim=3"),
        ("vit_base", {"image_size": 225}, "not a multiple of patch 16"),
        ("inception_i3d", {"ndim": 2}, "takes 3 axes"),
        ("isotropic", {"mixer": "conv", "kernel": 4}, "must be odd"),
        ("timm/resnet18", {"ndim": 3}, "gain time by inflation"),
        ("torchvision/mc3_18", {"ndim": 2}, "has 3 axes"),
        ("timm/resnet18", {"colour": 3}, "does not take the option 'colour'"),
    ],
)
def test_unknown_names_list_the_nearest_ones(architecture, options, message) -> None:
    with pytest.raises(PretrainedError, match=message):
        build(architecture, **options)


def test_vit_says_which_size_it_has_positions_for() -> None:
    network = build("vit_base", **SMALL_VIT)
    with pytest.raises(ValueError, match="positions for images of 32×32 pixels, got 48×48"):
        network(torch.zeros(1, 3, 48, 48))


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("timm/deit_tiny_distilled_patch16_224", 2),  # two heads, averaged
        ("timm/crossvit_9_240", 2),  # a list of heads
        ("timm/levit_128", 2),  # norms inside the heads
        ("timm/caformer_s18", 1),  # layers before the last
        ("timm/dla34", 1),  # a convolution
        ("torchvision/s3d", 1),
    ],
)
def test_the_classifying_layer_is_found_in_every_shape_of_head(name: str, heads: int) -> None:
    with torch.device("meta"):
        network = build(name, num_classes=7)
    assert len(network.heads) == heads
    assert len(network.head.weight) == 7


def test_drop_path_leaves_out_whole_samples() -> None:
    from pretrained_2d.networks.layers.blocks import DropPath

    layer = DropPath(0.5).train()
    kept = layer(torch.ones(1000, 2, 3))
    assert set(kept.flatten(1).mean(1).tolist()) == {0.0, 2.0}
    assert 400 < (kept[:, 0, 0] > 0).sum() < 600
    assert torch.equal(layer.eval()(torch.ones(4, 2)), torch.ones(4, 2))
