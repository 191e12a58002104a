"""Inflated networks as whole graphs: torch.compile and torch.export."""

import pytest
import torch
from torch import Tensor

from tests.videopipe.inflation.small_network import Small
from videopipe.inflation import inflate

METHODS = ("i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention", "none")
SMALL = {"num_frames": 6, "image_size": 16, "state": 8}


@pytest.mark.parametrize(
    "method",
    [
        "s3d",
        *(
            pytest.param(method, marks=pytest.mark.slow)
            for method in METHODS[:-1]
            if method != "s3d"
        ),
    ],
)
def test_compiles_as_one_graph_and_trains(method: str) -> None:
    """The second batch size makes the batch dynamic; a third one compiles nothing."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    network = inflate(Small(), method=method, temporal_weights="channel", **SMALL).train()
    compiled = torch.compile(network, fullgraph=True, backend=backend)
    for batch in (2, 3, 5):
        clips = torch.randn(batch, 3, 6, 16, 16)
        network.zero_grad()
        network(clips).square().sum().backward()
        expected = [p.grad.clone() for p in network.parameters() if p.grad is not None]
        network.zero_grad()
        logits = compiled(clips)
        logits.square().sum().backward()
        torch.testing.assert_close(logits, network(clips), rtol=1e-4, atol=1e-5)
        actual = [p.grad for p in network.parameters() if p.grad is not None]
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert len(graphs) == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", METHODS)
def test_one_graph_for_clips_in_batches_of_any_size(method: str) -> None:
    """In evaluation. The second size makes the batch dynamic, a third one compiles nothing."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    network = inflate(Small(), method=method, **SMALL).eval()
    compiled = torch.compile(network, fullgraph=True, backend=backend)
    with torch.no_grad():
        for batch in (2, 3, 5):
            clips = torch.randn(batch, 3, 6, 16, 16)
            torch.testing.assert_close(compiled(clips), network(clips), rtol=1e-4, atol=1e-5)
    assert len(graphs) == 2


@pytest.mark.parametrize("method", METHODS[:-1])
def test_exports(method: str) -> None:
    network = inflate(Small(), method=method, **SMALL).eval()
    clip = torch.randn(1, 3, 6, 16, 16)
    program = torch.export.export(network, (clip,))
    torch.testing.assert_close(program.module()(clip), network(clip))
