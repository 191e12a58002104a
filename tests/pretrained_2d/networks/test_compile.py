"""`torch.compile(fullgraph=True)` of whole networks: one graph, in training and evaluation."""

import pytest
import torch

from pretrained_2d.networks.convnext import ConvNeXt
from pretrained_2d.networks.isotropic import Isotropic
from pretrained_2d.networks.vit import ViT
from s4nd import compiled

AXIS = {"axis": {"state": 4, "basis": "legs"}}
SMALL = {
    "mixer": "s4nd", "depths": (1, 1, 1, 1), "widths": (4, 4, 4, 4), "num_classes": 3,
    "image_size": 32, "num_frames": 4,
}  # fmt: skip
TOKENS = {"mixer": "s4nd", "image_size": 32, "patch": 8, "width": 6, "num_classes": 3, "depth": 2}
FLAT = {"width": 6, "depth": 2, "image_size": 8, "num_frames": 4}
NETWORKS = {
    "convnext": (lambda: ConvNeXt(**SMALL, **AXIS), (32, 32)),
    "convnext 3d": (lambda: ConvNeXt(**SMALL, **AXIS, ndim=3), (4, 32, 32)),
    "vit": (lambda: ViT(**TOKENS, **AXIS), (32, 32)),
    "isotropic 1d": (lambda: Isotropic(**FLAT, **AXIS, ndim=1), (8,)),
    "isotropic 2d": (lambda: Isotropic(**FLAT, **AXIS, ndim=2), (8, 8)),
    "isotropic 3d": (lambda: Isotropic(**FLAT, **AXIS, ndim=3), (4, 8, 8)),
}


class CountingBackend:
    """AOTAutograd without code generation, which takes minutes; counts the graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_graph_for_training_and_one_for_evaluation(name):
    """Of any batch size: the second one makes the batch dynamic, a third one compiles nothing."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, sizes = NETWORKS[name]
    network, backend = make().eval(), CountingBackend()
    parameters = list(network.parameters())
    graph = torch.compile(network, fullgraph=True, backend=backend)
    with compiled.disabled():
        for batch in (2, 3, 5):
            signal = torch.randn(batch, 3, *sizes)
            ours = torch.autograd.grad(graph(signal).square().sum(), parameters)
            expected = torch.autograd.grad(network(signal).square().sum(), parameters)
            for mine, other in zip(ours, expected, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)
        assert backend.graphs == 2
        with torch.no_grad():
            for batch in (5, 7):
                signal = torch.randn(batch, 3, *sizes)
                torch.testing.assert_close(graph(signal), network(signal), rtol=1e-4, atol=1e-5)
        assert backend.graphs == 3
