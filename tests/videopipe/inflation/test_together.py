"""Kernels of folded networks generated together: fewer operations, the same results."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d.networks.backbones import build
from s4nd import compiled
from tests.pretrained_2d.networks.launches import Launches
from videopipe.inflation.folded import FoldedNetwork, inflate
from videopipe.inflation.mixing import time_kernel
from videopipe.inflation.mixing.time_kernel import TimeMixing, matrices_together
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.planning.layer_plan import make_plan

SMALL: dict[str, Any] = {"num_frames": 4, "state": 4}


@pytest.fixture(autouse=True)
def plain():
    """The compiled form generates kernels on a CPU; devices have plain torch."""
    token = compiled._switch.set(False)
    yield
    compiled._switch.reset(token)


def video(**options: Any) -> FoldedNetwork:
    torch.manual_seed(0)
    network = build("timm/test_resnet", num_classes=3)
    return inflate(network, image_size=32, **{**SMALL, "method": "s4nd", **options})


def outcome(network: FoldedNetwork, clip: Tensor, rate: float) -> list[Tensor]:
    """Logits, features, maps and gradients."""
    network.zero_grad()
    results = [network(clip, rate), network.embed(clip, rate), *network.features(clip, rate=rate)]
    torch.stack([result.square().mean() for result in results]).sum().backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    return [*(result.detach() for result in results), *gradients]


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "zeros": {"padding": "zeros", "start": "identity"},
    "low rank": {"basis": "legs", "copies": 1},
    "pooled": {"temporal_pool": ("network.layer2",)},
    "adapter": {"method": "adapter", "adapter_kernel": "s4nd", "layers": "network.layer1.*"},
}


@pytest.mark.parametrize("rate", [1.0, 2.0])
@pytest.mark.parametrize("kind", OPTIONS)
def test_results_and_gradients_are_those_of_single_layers(monkeypatch, kind, rate) -> None:
    network = video(**OPTIONS[kind]).double().eval()
    clip = torch.randn(2, 3, 5, 32, 32).double()
    expected = outcome(network, clip, rate)
    together = lambda layers: matrices_together(layers, on_cpu=True)  # noqa: E731
    monkeypatch.setattr("videopipe.inflation.folded.matrices_together", together)

    def refuse(*_: object) -> None:
        raise AssertionError("a layer made its own kernels")

    monkeypatch.setattr(TimeMixing, "_make_matrix", refuse)
    for mine, other in zip(outcome(network, clip, rate), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)
    assert all(layer.given is None for layer in network._mixers)


def test_a_step_on_a_device_launches_fewer_operations(monkeypatch) -> None:
    flat = build("timm/resnet18", num_classes=3)
    plan = make_plan(flat, InflationOptions(method="s4nd", num_frames=8), 64)

    def launches() -> int:
        network = FoldedNetwork(copy.deepcopy(flat), plan).to("meta")
        clip = torch.empty(1, 3, 8, 64, 64, device="meta")
        with Launches() as counted:
            nn.functional.cross_entropy(
                network(clip), torch.zeros(1, dtype=torch.long, device="meta")
            ).backward()
        return counted.total()

    together = launches()
    monkeypatch.setattr(time_kernel, "launches_are_slow", lambda _: False)
    alone = launches()
    assert together < 1600  # 1,472 when this was written
    assert alone > 3 * together


def test_a_wrong_announcement_and_evaluation_change_nothing() -> None:
    network = video().eval()
    layers = network._mixers
    with torch.no_grad(), matrices_together(layers, on_cpu=True):
        assert all(layer.given is None for layer in layers)  # cached matrices are used
    with matrices_together(layers, on_cpu=True):
        assert all(layer.given is not None for layer in layers)
        twin = copy.deepcopy(network)
        clip = torch.randn(1, 3, 6, 32, 32)
        other_steps = network(clip)
    assert all(layer.given is None for layer in twin._mixers)
    assert all(own is not copied for own, copied in zip(layers, twin._mixers, strict=True))
    torch.testing.assert_close(other_steps, twin(clip))
