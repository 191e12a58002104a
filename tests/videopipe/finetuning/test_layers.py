"""Freezing and layer-wise learning rates of every parameter."""

import copy

import pytest
import timm
import torch
from torch import nn

from videopipe.errors import DataError
from videopipe.finetuning.layers import (
    freeze_batch_norm,
    lay_channels_last,
    layer_names,
    layer_of,
    learning_rate_scale,
)
from videopipe.inflation import inflate


@pytest.mark.parametrize(
    ("parameter", "layer"),
    [
        ("stem.0.weight", "stem.0"),
        ("stages.1.2.mlp.0.weight", "stages.1.2"),
        ("stages.0.blocks.1.conv_dw.weight", "stages.0.blocks.1"),
        ("blocks.3.1.conv_pw.weight", "blocks.3.1"),
        ("layer1.0.bn1.weight", "layer1.0"),
        ("conv_stem.weight", "conv_stem"),
        ("cls_token", "cls_token"),
    ],
)
def test_layer_of_a_parameter(parameter: str, layer: str) -> None:
    assert layer_of(parameter) == layer


def rates(name: str = "resnet18", **options: object) -> dict[str, float]:
    model = timm.create_model(name)
    head = {"fc.weight", "fc.bias"}
    settings = {"head": head, "time": {"conv1.weight"}, "decay": 1.0, "freeze": "nothing"}
    scale = learning_rate_scale(model, **{**settings, **options})
    return {parameter: scale(parameter) for parameter, _ in model.named_parameters()}


def test_layer_wise_decay_falls_from_the_head_to_the_input() -> None:
    found = rates(decay=0.5)
    assert found["fc.weight"] == 1
    assert found["layer4.1.conv2.weight"] == 0.5
    assert found["layer4.0.conv1.weight"] == 0.25
    assert found["conv1.weight"] == 0.5**10  # eight blocks, the first norm, the first convolution
    assert layer_names(timm.create_model("resnet18"), {"fc.weight", "fc.bias"})[-1] == "head"


def test_the_time_axis_can_learn_more_slowly() -> None:
    found = rates(time_scale=0.1)
    assert found["conv1.weight"] == 0.1
    assert {factor for name, factor in found.items() if name != "conv1.weight"} == {1.0}


def test_linear_probe_trains_the_head_and_space_freezing_also_time() -> None:
    probe = rates(freeze="backbone")
    assert {name for name, factor in probe.items() if factor} == {"fc.weight", "fc.bias"}
    space = rates(freeze="space")
    assert {n for n, factor in space.items() if factor} == {"fc.weight", "fc.bias", "conv1.weight"}


def test_patterns_freeze_and_a_pattern_without_match_is_refused() -> None:
    found = rates(freeze_patterns=("layer1.*", "conv1.*"))
    assert {name for name, factor in found.items() if not factor} == {
        name for name in found if name.startswith(("layer1.", "conv1."))
    }
    with pytest.raises(DataError, match=r"layerX\.\* match no parameter.*conv1\.weight"):
        rates(freeze_patterns=("layerX.*",))
    with pytest.raises(DataError, match="no parameter to train"):
        rates(freeze_patterns=("*",))


def test_frozen_batch_norm_keeps_its_statistics_through_training_and_copies() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
    assert freeze_batch_norm(model) == 1
    for network in (model, copy.deepcopy(model)):
        before = copy.deepcopy(network.state_dict())
        network.train()
        network(torch.randn(2, 3, 8, 8))
        assert network[2].training
        for name, value in network.state_dict().items():
            assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("method", ["s4nd", "i3d"])
def test_channels_last_changes_the_layout_and_not_the_values(method: str) -> None:
    torch.manual_seed(0)
    flat = timm.create_model("test_efficientnet", num_classes=3)
    model = inflate(flat, method=method, num_frames=4, image_size=32).eval()
    clip = torch.randn(2, 3, 4, 32, 32)
    names = list(model.state_dict())
    with torch.no_grad():
        before = model(clip)
        lay_channels_last(model)
        torch.testing.assert_close(model(clip), before, rtol=1e-4, atol=1e-5)
    assert list(model.state_dict()) == names
