"""The trial run classifies the layers of small networks with known answers."""

import pytest
import torch
from torch import Tensor, nn

from videopipe.inflation.planning.layer_selection import block_of
from videopipe.inflation.planning.survey import evaluating, is_token_mixer, survey


class Attention(nn.Linear):
    pass


class ChannelsLast(nn.Module):
    def forward(self, maps: Tensor) -> Tensor:
        return maps.movedim(1, -1)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        return self.conv(maps)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU())

    def forward(self, maps: Tensor) -> Tensor:
        return self.body(self.inner(maps))


class Small(nn.Module):
    """Maps with channels first, maps with channels last, tokens, and a mean over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.scaled = nn.Identity()  # before any layer that tells where channels lie
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.block = Block()
        self.last = ChannelsLast()
        self.linear = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(6)
        self.tokens = nn.Flatten(1, 2)
        self.attn = Attention(6, 6)
        self.mixed = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.linear(self.last(self.block(self.stem(self.scaled(images))))))
        tokens = self.attn(self.tokens(maps))
        return self.mixed(tokens - tokens.mean(0, keepdim=True)).mean(1)


def test_where_channels_lie_and_what_kind_a_layer_is() -> None:
    seen = survey(Small(), 8)
    assert {name: layer.channel_dim for name, layer in seen.items() if name} == {
        "scaled": 1, "stem": 1, "block": 1, "block.inner": 1, "block.inner.conv": 1,
        "block.body": 1, "block.body.0": 1, "block.body.1": 1, "last": 1, "linear": -1, "norm": -1,
        "tokens": -1, "attn": -1, "mixed": -1,
    }  # fmt: skip
    kinds = {"convolution": {"stem", "block.inner.conv", "block.body.0"}, "mixer": {"attn"}}
    for kind, names in kinds.items():
        assert {name for name, layer in seen.items() if layer.kind == kind} == names
    assert [name for name, layer in seen.items() if layer.takes_image] == ["scaled", "stem", ""]
    assert (seen["norm"].channels, seen["tokens"].output_shape) == (6, (2, 64, 6))


def test_a_layer_that_mixes_the_batch_is_not_frame_by_frame() -> None:
    seen = survey(Small(), 8)
    assert [name for name, layer in seen.items() if not layer.by_frame] == ["mixed", ""]


def test_layers_end_after_what_is_inside() -> None:
    seen = survey(Small(), 8)
    whole, inner, body = seen["block"], seen["block.inner"], seen["block.body"]
    assert whole.began < inner.began < inner.ended < body.began < body.ended < whole.ended
    assert min(layer.began for layer in seen.values()) == seen[""].began == 0


@pytest.mark.parametrize(
    ("name", "module", "mixes"),
    [
        ("block.attn", Attention(2, 2), True),
        ("block.1", Attention(2, 2), True),
        ("block.token_mixer", nn.AvgPool2d(3), True),
        ("block.attn", nn.Identity(), False),
        ("block.token_mixer", nn.Conv2d(2, 2, 3), False),
        ("block.pool", nn.AvgPool2d(3), False),
    ],
)
def test_what_mixes_tokens(name: str, module: nn.Module, mixes: bool) -> None:
    assert is_token_mixer(name, module) == mixes


def test_the_block_of_a_layer_holds_further_layers() -> None:
    network = Small()
    assert block_of(network, "block.inner.conv") == "block"
    assert block_of(network, "block.body.0") == "block", "a Sequential is no block"
    assert block_of(network, "stem") == "stem"


def test_every_module_gets_its_mode_back() -> None:
    network = Small().train()
    network.norm.eval()
    with evaluating(network):
        assert not any(module.training for module in network.modules())
    assert [name for name, module in network.named_modules() if not module.training] == ["norm"]
    assert torch.is_grad_enabled()


class Rounding(nn.Module):
    """Many zeros, and an error that depends on the size of the batch."""

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error

    def forward(self, maps: Tensor) -> Tensor:
        return maps.relu() + self.error * len(maps)


@pytest.mark.parametrize(("error", "by_frame"), [(0.0, True), (1e-5, True), (0.05, False)])
def test_rounding_around_zero_is_no_sign_of_mixed_images(error: float, by_frame: bool) -> None:
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
    network = nn.Sequential(nn.Conv2d(3, 4, 1), Rounding(error), *pooled)
    assert survey(network, 8)["1"].by_frame == by_frame
