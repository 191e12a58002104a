"""The time axis is found in every kind of video network, and its lengths are read off rightly."""

import math

import pytest
import timm
import torch

from pretrained_2d.networks.backbones import build
from videopipe.inflation import inflate
from videopipe.inflation.time_axis import (
    kernel_lengths,
    learned_lengths,
    time_parameters,
    time_spaces,
)

SMALL = {"depths": (1, 1, 2, 1), "widths": (8, 8, 16, 16), "image_size": 32, "num_frames": 8}


def network(mixer: str) -> torch.nn.Module:
    return build("convnext_tiny", ndim=3, mixer=mixer, num_classes=4, **SMALL)


def test_time_axis_of_our_s4nd_network() -> None:
    model = network("s4nd")
    spaces = dict(time_spaces(model))
    assert len(spaces) == 5
    assert all(space.config.size == 4 for space in spaces.values()), "8 frames in patches of 2"
    found = time_parameters(model)
    assert found <= {name for name, _ in model.named_parameters()}
    assert {name for name in found if ".spaces." in name} == {
        f"{layer}.{parameter}"
        for layer in spaces
        for parameter in ("log_dt", "A_real", "A_imag", "B", "C", "P")
    }
    assert any(name.startswith("stem.") for name in found), "the stem takes two frames"


@pytest.mark.parametrize(("method", "count"), [("s3d", 17), ("i3d", 17), ("s4nd", 5 * 17)])
def test_time_axis_of_a_folded_network(method: str, count: int) -> None:
    model = inflate(timm.create_model("resnet18"), method=method, num_frames=4, image_size=64)
    found = time_parameters(model)
    assert found <= {name for name, _ in model.named_parameters()}
    assert len(found) == count, "17 convolutions see more than one pixel, 3 shortcuts do not"


@pytest.mark.parametrize("mixer", ["conv", "separable"])
def test_time_axis_of_our_convolutional_networks(mixer: str) -> None:
    model = network(mixer)
    found = time_parameters(model)
    assert found <= {name for name, _ in model.named_parameters()}
    ending = "time_weight" if mixer == "separable" else "weight"
    assert sum(name.endswith(f"mixer.{ending}") for name in found) == 5
    assert kernel_lengths(model) == {}


@pytest.mark.parametrize("method", ["none", "i3d"])
def test_time_axis_of_our_network_folded(method: str) -> None:
    small = {key: value for key, value in SMALL.items() if key != "num_frames"}
    flat = build("convnext_tiny", ndim=2, mixer="conv", num_classes=4, **small)
    model = inflate(flat, method=method, num_frames=4, image_size=32, temporal_patch=2)
    found = time_parameters(model)
    assert found <= {name for name, _ in model.named_parameters()}
    assert any("stem" in name for name in found), "the stem takes two frames"


def test_lengths_are_two_over_the_step() -> None:
    model = inflate(
        timm.create_model("resnet18"), method="s4nd", length=4.0, num_frames=8, image_size=64
    )
    before = kernel_lengths(model)
    assert all(value == pytest.approx((4.0, 4.0, 4.0)) for value in before.values())
    first = next(iter(dict(time_spaces(model)).values()))
    with torch.no_grad():
        first.log_dt.fill_(math.log(0.1))
    after = learned_lengths(before, kernel_lengths(model))
    assert after[0]["initial_length"] == pytest.approx(4.0)
    assert after[0]["learned_length"] == pytest.approx(20.0)
    assert after[1]["learned_length"] == pytest.approx(4.0)
