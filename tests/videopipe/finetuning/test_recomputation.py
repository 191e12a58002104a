"""Gradient checkpointing of folded networks: blocks that unfold time are recomputed alike."""

import copy

import pytest
import timm
import torch

from pretrained_2d.training.efficiency.recomputation import recompute_blocks
from videopipe.inflation.folded import inflate


@pytest.mark.parametrize("method", ["s4nd", "i3d"])
@pytest.mark.parametrize("architecture", ["test_resnet", "test_vit"])
def test_gradients_of_folded_networks_are_the_same(architecture: str, method: str) -> None:
    torch.manual_seed(0)
    options = {"img_size": 32} if architecture == "test_vit" else {}
    network = timm.create_model(architecture, num_classes=3, **options)
    plain = inflate(network, method=method, num_frames=4, image_size=32).train()
    recomputed = copy.deepcopy(plain)
    assert recompute_blocks(recomputed)
    clips = torch.randn(3, 3, 4, 32, 32)
    for each in (plain, recomputed):
        first, second = each(clips[:1]), each(clips[1:])  # two batch sizes before one backward pass
        (first.square().sum() + second.square().sum()).backward()
    expected = {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}
    actual = {name: p.grad for name, p in recomputed.named_parameters() if p.grad is not None}
    assert expected.keys() == actual.keys()
    for name, one in expected.items():
        torch.testing.assert_close(
            one, actual[name], rtol=1e-4, atol=1e-5 * float(one.abs().max() + 1e-3), msg=name
        )
