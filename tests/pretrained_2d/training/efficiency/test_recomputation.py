"""Gradient checkpointing computes the same gradients; other optimisers train the same groups."""

from pathlib import Path

import pytest
import torch
from torch import nn
from toy_training import network as toy
from toy_training import run

from pretrained_2d.errors import TrainingError
from pretrained_2d.networks.backbones import build
from pretrained_2d.training.efficiency.recomputation import (
    find_blocks,
    recompute_blocks,
    release_blocks,
)
from pretrained_2d.training.optimiser import build_optimizer, parameter_groups
from pretrained_2d.training.recipe import Recipe

ISOTROPIC = {"depth": 2, "width": 8, "image_size": 8, "num_classes": 3}


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Dropout(0.5))
        self.calls = 0

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(signal).square()


def gradients(network: nn.Module, signal: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    network.zero_grad()
    network(signal).square().sum().backward()
    return [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("architecture", ["isotropic", "timm/test_resnet", "timm/test_vit"])
def test_gradients_and_statistics_are_the_same(architecture: str) -> None:
    options = ISOTROPIC if architecture == "isotropic" else {"num_classes": 3}
    size = 8 if architecture == "isotropic" else 160
    torch.manual_seed(0)
    networks = [build(architecture, **options).train() for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    names = list(networks[1].state_dict())
    assert recompute_blocks(networks[1])
    assert list(networks[1].state_dict()) == names
    signal = torch.randn(2, 3, size, size)
    expected, actual = (gradients(each, signal) for each in networks)
    assert len(expected) == len(actual)
    for one, two in zip(expected, actual, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5 * float(one.abs().max() + 1))
    for (name, one), two in zip(networks[0].named_buffers(), networks[1].buffers(), strict=True):
        assert torch.equal(one, two), name


def test_blocks_run_twice_in_training_with_the_same_dropout() -> None:
    network = nn.Sequential(Counted(), Counted()).train()
    copy = nn.Sequential(Counted(), Counted()).train()
    copy.load_state_dict(network.state_dict())
    assert recompute_blocks(network) == ["0", "1"]
    signal = torch.randn(4, 3, 5, 5)
    for one, two in zip(gradients(network, signal), gradients(copy, signal), strict=True):
        assert torch.equal(one, two)
    assert [block.calls for block in network] == [2, 2]
    assert int(network[0].inner[1].num_batches_tracked) == 1
    network.eval()(signal)
    assert [block.calls for block in network] == [3, 3]
    release_blocks(network.train())
    gradients(network, signal)
    assert [block.calls for block in network] == [4, 4]


def test_the_innermost_blocks_are_found() -> None:
    network = build("timm/test_resnet", num_classes=3)
    assert all(".0" in name or ".1" in name for name in find_blocks(network))
    assert not find_blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def test_a_network_without_blocks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="gradient_checkpointing: this network has no blocks"):
        run(tmp_path, toy(), gradient_checkpointing=True)


@pytest.mark.parametrize("name", ["lamb", "lion", "adafactor", "sgd"])
def test_an_optimiser_of_timm_keeps_the_rates_of_the_groups(name: str) -> None:
    network = build("isotropic", **ISOTROPIC)
    recipe = Recipe(
        lr=0.01, state_space_lr=0.001, weight_decay=0.3, betas=(0.8, 0.95), optimiser=name
    )
    groups = parameter_groups(network, recipe)
    optimizer = build_optimizer(groups, recipe)
    assert type(optimizer).__name__.lower().startswith(name)
    found = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    assert found == [(group.lr, group.weight_decay) for group in groups]
    momentum = {group.get("betas") for group in optimizer.param_groups}
    assert momentum == {(0.8, 0.95) if name in ("lamb", "lion") else None}
    before = network.head.weight.detach().clone()
    torch.nn.init.normal_(network.head.weight)
    gradients(network, torch.randn(2, 3, 8, 8))
    optimizer.step()
    assert not torch.equal(before, network.head.weight)


def test_an_unknown_optimiser_is_named() -> None:
    groups = parameter_groups(nn.Linear(2, 2), Recipe())
    with pytest.raises(TrainingError, match=r"optimiser is lamp, .*did you mean .*lamb"):
        build_optimizer(groups, Recipe(optimiser="lamp"))
    with pytest.raises(TrainingError, match="adahessian needs second derivatives"):
        build_optimizer(groups, Recipe(optimiser="adahessian"))


def test_a_run_trains_and_resumes_with_another_optimiser(tmp_path: Path) -> None:
    result = run(tmp_path, toy(), optimiser="lamb", epochs=1)
    assert result.steps > 0
    with pytest.raises(TrainingError, match="optimiser was 'lamb' and is now 'adamw'"):
        run(tmp_path, toy(), epochs=1)


def test_a_run_of_a_version_without_the_setting_resumes(tmp_path: Path) -> None:
    run(tmp_path, toy(), epochs=2)
    (*_, newest) = sorted(tmp_path.glob("state/step_*/state.pt"))
    state = torch.load(newest, weights_only=True)
    del state["settings"]["optimiser"]
    torch.save(state, newest)
    run(tmp_path, toy(), epochs=2)
