"""The number of launches of a training step on a device, without synchronisation.

The meta device launches nothing and needs no memory, but takes the same path as a GPU.
"""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pretrained_2d.networks.convnext import ConvNeXt
from pretrained_2d.networks.isotropic import Isotropic
from pretrained_2d.networks.vit import ViT
from s4nd import S4ND, compiled, sampled_together
from tests.pretrained_2d.networks.launches import Launches, training_step

SMALL = {
    "depths": (1, 1, 2, 1), "widths": (4, 4, 6, 6), "num_classes": 3, "image_size": 36,
    "mixer": "s4nd", "axis": {"state": 4, "basis": "legs"},
}  # fmt: skip
CLIP = {"ndim": 3, "num_frames": 6}
TOKENS = {"mixer": "s4nd", "image_size": 32, "patch": 8, "width": 6, "num_classes": 3, "depth": 2}
FLAT = {"width": 6, "depth": 2, "image_size": 9, "num_frames": 5, "axis": {"state": 4}}
NETWORKS = {
    "convnext": (lambda: ConvNeXt(**SMALL), (37, 50)),
    "convnext of s4nd": (lambda: ConvNeXt(**SMALL, stem="s4nd", downsample="s4nd"), (37, 50)),
    "convnext 3d": (lambda: ConvNeXt(**SMALL, **CLIP), (6, 36, 36)),
    "convnext 3d of s4nd": (
        lambda: ConvNeXt(
            **SMALL, **CLIP, stem="s4nd", downsample="s4nd", temporal_strides=(2, 1, 1)
        ),
        (7, 36, 45),
    ),
    "vit": (lambda: ViT(**TOKENS, axis={"state": 4}), (32, 40)),
    "isotropic 1d": (lambda: Isotropic(**FLAT, ndim=1), (9,)),
    "isotropic 2d": (lambda: Isotropic(**FLAT, ndim=2), (9, 7)),
    "isotropic 3d": (lambda: Isotropic(**FLAT, ndim=3), (5, 9, 9)),
}


def refuse(*_):
    raise AssertionError("a layer made its own kernels")


def counted(network, *shape):
    signal, target = torch.empty(shape), torch.zeros(shape[0], dtype=torch.long)
    optimiser = torch.optim.AdamW(network.parameters(), foreach=True)
    with Launches() as launches:
        training_step(network, signal, target)
        step = launches.total()
        optimiser.step()  # makes its state
        made = launches.total()
        optimiser.step()
    assert launches.total() - made < 30  # it updates all parameters at once
    return step


def test_a_step_of_s4nd_convnext_tiny_on_images_and_clips(monkeypatch):
    """Before kernels were generated together: 11,144 and 16,471 launches; ConvNeXt-T has 416."""
    monkeypatch.setattr(S4ND, "_make_operators", refuse)
    with torch.device("meta"):
        assert counted(ConvNeXt(mixer="s4nd"), 8, 3, 224, 224) <= 1500
        assert counted(ConvNeXt(mixer="s4nd", ndim=3), 1, 3, 30, 224, 224) <= 2200
        assert counted(ConvNeXt(), 8, 3, 224, 224) < 450


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rate", [1.0, 1.5])
def test_networks_announce_every_call_of_their_layers(monkeypatch, name, rate):
    """Also for sizes that are not multiples of the strides."""
    make, sizes = NETWORKS[name]
    monkeypatch.setattr(S4ND, "_make_operators", refuse)
    with torch.device("meta"):
        network = make()
        network(torch.empty(2, 3, *sizes), rate).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_of_a_network_made_together_give_the_same_gradients(name):
    make, sizes = NETWORKS[name]
    torch.manual_seed(0)
    network, signal = make().double().eval(), torch.randn(2, 3, *sizes).double()
    found = []
    for together in (False, True):
        grid = (sizes[0] // 8) * (sizes[-1] // 8) if name == "vit" else sizes
        calls = network._calls(grid, 1.0)
        scope = sampled_together(calls, on_cpu=True) if together else nullcontext()
        with compiled.disabled(), scope:
            loss = network(signal).square().sum()
        found.append(torch.autograd.grad(loss, list(network.parameters())))
    for ours, alone in zip(*found, strict=True):
        torch.testing.assert_close(ours, alone, rtol=1e-8, atol=1e-10)


def test_forward_and_evaluation_on_a_fake_gpu():
    """No tensor of another device, no value read: fake tensors have none."""
    with torch.device("meta"):
        network = Isotropic(**FLAT, ndim=3)
    with FakeTensorMode(allow_non_fake_inputs=True), Launches():
        network.to_empty(device="cuda")
        clip = torch.empty(2, 3, 5, 9, 9, device="cuda")
        assert network(clip).device.type == "cuda"
        with torch.no_grad():
            assert network.eval()(clip).device.type == "cuda"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_whole_steps_on_a_fake_device():
    """Without a driver, torch runs no backward pass for `cuda`; a custom device replaces it.

    Such a device can be registered once in a process, hence the program beside this file.
    """
    command = [sys.executable, "-m", "tests.pretrained_2d.networks.fake_device"]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ok"] * 3
