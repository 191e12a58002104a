"""Any 2D network on folded frames: exact on still videos, and a network like any other."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d.networks.backbones import build
from tests.videopipe.inflation.small_network import Small
from videopipe.inflation import InflationOptions, inflate
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.options import InflationError
from videopipe.inflation.planning.layer_plan import InflationPlan, make_plan

METHODS = ("i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention", "none")
SMALL = {"num_frames": 6, "image_size": 16, "state": 8}
Maker = Callable[..., Any]


def grown(hybrid: Maker, method: str = "s4nd", **options: Any) -> FoldedNetwork:
    return inflate(hybrid(), method=method, **SMALL | options).eval()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("patch", [1, 2, 3])
@pytest.mark.parametrize("layers", ["all", "spatial>1", "depthwise"])
def test_still_video_gives_2d_logits(
    hybrid: Maker, still: Maker, method: str, patch: int, layers: str
) -> None:
    images, clips = still()
    expected = hybrid()(images)
    network = grown(hybrid, method, layers=layers, temporal_patch=patch)
    torch.testing.assert_close(network(clips), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", METHODS[:-1])
def test_time_is_mixed_as_soon_as_kernels_move(hybrid: Maker, method: str) -> None:
    network = grown(hybrid, method, temporal_weights="channel")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "time" in name or parameter.ndim == 5:
                parameter.add_(0.1 * torch.randn_like(parameter))
    clip = torch.randn(1, 3, 6, 16, 16)
    assert not torch.allclose(network(clip), network(clip.flip(2)), atol=1e-4)


def test_without_time_mixing_the_order_of_frames_has_no_effect(hybrid: Maker) -> None:
    network = grown(hybrid, "none")
    clip = torch.randn(1, 3, 6, 16, 16)
    torch.testing.assert_close(network(clip), network(clip.flip(2)))


@pytest.mark.parametrize("method", METHODS)
def test_clips_of_a_batch_do_not_mix(hybrid: Maker, method: str) -> None:
    network = grown(hybrid, method, start="random")
    for name, parameter in network.named_parameters():
        if name.endswith(("up.weight", "project.weight")):  # these start at zero
            nn.init.normal_(parameter)
    clips = torch.randn(3, 3, 6, 16, 16)
    alone = torch.cat([network(clip[None]) for clip in clips])
    torch.testing.assert_close(network(clips), alone, rtol=1e-4, atol=1e-5)


def test_every_parameter_gets_a_gradient(hybrid: Maker) -> None:
    for method in METHODS[:-1]:
        network = grown(hybrid, method, start="random").train()
        network(torch.randn(2, 3, 6, 16, 16)).square().sum().backward()
        for name, parameter in network.named_parameters():
            if "unused" not in name:
                assert parameter.grad is not None, name
                assert parameter.grad.isfinite().all(), name


def test_batch_norm_sees_all_frames(hybrid: Maker) -> None:
    """Its statistics are those of a BatchNorm3d on the unfolded clip."""
    network = grown(hybrid, "none").train()
    clips = torch.randn(2, 3, 6, 16, 16)
    volume = nn.BatchNorm3d(8).train()
    norm = network.network.stem[1]
    volume.running_mean.copy_(norm.running_mean)
    volume.running_var.copy_(norm.running_var)
    stem = network.network.stem[0]
    maps = stem(clips.transpose(1, 2).flatten(0, 1))
    volume(maps.view(2, 6, *maps.shape[1:]).transpose(1, 2))
    network(clips)
    torch.testing.assert_close(norm.running_mean, volume.running_mean)
    torch.testing.assert_close(norm.running_var, volume.running_var)


def test_gradient_checkpointing_with_two_passes_before_one_backward(hybrid: Maker) -> None:
    """Layers that run again during backward must use the batch of their own pass."""
    first, second = torch.randn(2, 3, 6, 16, 16), torch.randn(3, 3, 4, 16, 16)
    gradients = []
    for checkpointed in (False, True):
        torch.manual_seed(1)
        network = inflate(hybrid(checkpointed=checkpointed), method="s3d", **SMALL)
        loss = network(first).square().sum() + network(second).square().sum()
        loss.backward()
        gradients.append([p.grad for p in network.parameters() if p.grad is not None])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, again)


def test_autocast_keeps_a_still_video_to_rounding(hybrid: Maker, still: Maker) -> None:
    images, clips = still()
    for method in METHODS:
        network = grown(hybrid, method)
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(clips)
            expected = hybrid()(images)
        torch.testing.assert_close(logits.float(), expected.float(), rtol=0.05, atol=0.05)


def test_copies_pickles_and_state_dicts(hybrid: Maker, tmp_path: Any) -> None:
    clip = torch.randn(1, 3, 6, 16, 16)
    network = grown(hybrid, start="random", temporal_patch=2)
    expected = network(clip)
    twin = copy.deepcopy(network)
    network(torch.randn(4, 3, 2, 16, 16))  # its batch is its own
    assert torch.equal(twin(clip), expected)
    torch.save(network, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert torch.equal(whole(clip), expected)
    other = FoldedNetwork(hybrid(), InflationPlan.from_json(network.plan.to_json())).eval()
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(clip), expected)


def test_pooling_halves_time_after_a_block(hybrid: Maker) -> None:
    network = grown(hybrid, "s4nd", temporal_pool=("stem", "stem.0"), num_frames=7)
    reductions = [(layer.name, layer.role, layer.reduction) for layer in network.plan.layers]
    assert reductions == [
        ("stem.0", "mixing", 1),
        ("depthwise", "mixing", 4),
        ("attn", "mixing", 4),
        ("stem.0", "pool", 1),
        ("stem", "pool", 2),
    ]
    assert network.network.attn.time.kernel.axis.config.size == 1
    assert network(torch.randn(2, 3, 7, 16, 16)).shape == (2, 5)


def test_pooling_keeps_a_still_video(hybrid: Maker, still: Maker) -> None:
    images, clips = still(frames=7)
    for method in METHODS:
        network = grown(hybrid, method, temporal_pool=("stem",), num_frames=7)
        torch.testing.assert_close(network(clips), hybrid()(images), rtol=1e-5, atol=1e-5)
        assert network.network(network._fold(clips, 1.0)).shape[0] == 2 * 3


def test_embedding_is_what_the_head_sees(hybrid: Maker) -> None:
    network = grown(hybrid, start="random")
    clip = torch.randn(2, 3, 6, 16, 16)
    features = network.embed(clip)
    assert features.shape == (2, 12)
    torch.testing.assert_close(network.head(features), network(clip), rtol=1e-4, atol=1e-5)


def test_rate_reaches_the_state_space(hybrid: Maker) -> None:
    network = grown(hybrid, start="random", length=3.0)
    clip = torch.randn(1, 3, 6, 16, 16)
    assert torch.equal(network(clip, 2.0), network(clip, (2.0, 1.0, 1.0)))
    assert not torch.allclose(network(clip, 2.0), network(clip), atol=1e-4)


def test_new_head(hybrid: Maker) -> None:
    network = inflate(hybrid(), method="s3d", num_classes=9, **SMALL)
    assert network(torch.randn(1, 3, 6, 16, 16)).shape == (1, 9)
    assert network.head.out_features == 9


class InPlace(nn.Module):
    """Changes what its convolution and its attention give, as some networks do to save memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.attn = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.conv(images.contiguous(memory_format=torch.channels_last))
        maps += 1
        tokens = self.attn(maps.flatten(2).transpose(1, 2))
        tokens += 1
        return self.head(tokens.mean(1))


@pytest.mark.parametrize("method", METHODS[:-1])
def test_outputs_may_be_changed_in_place(method: str) -> None:
    options = SMALL | {"temporal_weights": "channel"}
    network = inflate(InPlace(), method=method, **options).train()
    logits = network(torch.randn(2, 3, 6, 16, 16))
    logits /= 2
    logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_plan_names_what_mixes_time(hybrid: Maker) -> None:
    plan = make_plan(hybrid(), InflationOptions(method="i3d"), 16)
    roles = {layer.name: layer.role for layer in plan.layers}
    assert roles == {"stem.0": "kernel", "depthwise": "kernel", "attn": "mixing"}
    assert plan.head == "head"
    assert InflationPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ("all", ["stem.0", "depthwise", "pointwise", "attn"]),
        ("depthwise", ["depthwise"]),
        ("stem.*", ["stem.0"]),
        ("re:^(depth|point)wise$", ["depthwise", "pointwise"]),
    ],
)
def test_layers_are_chosen(hybrid: Maker, layers: str, names: list[str]) -> None:
    plan = make_plan(hybrid(), InflationOptions(layers=layers), 16)
    assert [layer.name for layer in plan.layers] == names


@pytest.mark.parametrize("prefix", ["", "network."])
def test_names_of_a_library_need_no_prefix(prefix: str) -> None:
    network = build("timm/test_resnet", num_classes=2)
    options = InflationOptions(
        layers=f"{prefix}layer1.*", temporal_pool=(f"re:^{prefix}layer2$",), num_frames=4
    )
    plan = make_plan(network, options, 32)
    assert [layer.name for layer in plan.layers] == [
        "network.layer1.0.conv1", "network.layer1.0.conv2", "network.layer2",
    ]  # fmt: skip
    wrong = InflationOptions(temporal_pool=(f"{prefix}layer9",))
    with pytest.raises(InflationError, match=r"matches no block .* network\.layer2, .*layer4"):
        make_plan(network, wrong, 32)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"layers": "conv*"}, r"layers='conv\*' matches no convolution or attention"),
        ({"layers": "re:("}, "is not a regular expression"),
        ({"temporal_pool": ("blocks",)}, "temporal_pool: 'blocks' matches no block"),
        ({"temporal_pool": ("stem",), "num_frames": 1}, "only 1 steps"),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0"),
    ],
)
def test_options_that_cannot_work_are_errors(
    hybrid: Maker, choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(InflationError, match=message):
        grown(hybrid, **choices)


def test_wrong_clips_are_refused(hybrid: Maker) -> None:
    network = grown(hybrid, temporal_patch=2)
    with pytest.raises(ValueError, match=r"expected clips of shape \(batch, 3, time"):
        network(torch.randn(1, 4, 6, 16, 16))
    with pytest.raises(ValueError, match="a clip of 1 frames is shorter than the temporal patch"):
        network(torch.randn(1, 3, 1, 16, 16))


def test_network_that_does_not_run_is_refused() -> None:
    with pytest.raises(InflationError, match="does not run on images of 3×16×16"):
        inflate(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(5, 2)), **SMALL)


def test_a_network_is_tried_on_images_of_224_pixels_unless_told_otherwise() -> None:
    for given, size in (({}, 224), ({"image_size": 40}, 40)):
        network, seen = Small(), set[tuple[int, ...]]()
        network.conv.register_forward_pre_hook(lambda _, args, seen=seen: seen.add(args[0].shape))
        inflate(network, method="s3d", num_frames=2, **given)
        assert {shape[1:] for shape in seen} == {(3, size, size)}
