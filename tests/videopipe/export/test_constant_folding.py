"""What depends on parameters only is computed once; everything else stays."""

import torch
from torch import Tensor, nn

from videopipe.export.clip_graph import shapes_of
from videopipe.export.constant_folding import fold_constants


class Generated(nn.Module):
    """A weight made from parameters, random numbers, and a table that is expanded."""

    def __init__(self, noise: bool = False) -> None:
        super().__init__()
        self.poles, self.noise = nn.Parameter(torch.randn(4, 1)), noise
        self.table = nn.Parameter(torch.randn(1, 4))

    def forward(self, signal: Tensor) -> Tensor:
        times = torch.arange(4.0)
        kernel = torch.exp(-(self.poles**2) * times).sin()  # (4, 4)
        if self.noise:
            kernel = kernel + torch.rand(4, 4)
        return signal @ kernel + self.table.expand(signal.shape[0], 4)


def traced(network: nn.Module, signal: Tensor) -> torch.fx.GraphModule:
    batch = ({0: torch.export.Dim("batch", min=1, max=64)},)
    program = torch.export.export(network, (signal,), dynamic_shapes=batch)
    return program.run_decompositions({}).module(check_guards=False)


def targets(module: torch.fx.GraphModule) -> set[str]:
    return {str(node.target) for node in module.graph.nodes if node.op == "call_function"}


@torch.no_grad()
def test_kernels_become_constants_and_the_result_stays() -> None:
    network, signal = Generated(), torch.randn(3, 4)
    before = traced(network, signal)
    assert any("exp" in name for name in targets(before))
    folded = fold_constants(before)
    assert not [name for name in targets(folded) if "sin" in name or "exp.default" in name]
    assert torch.equal(folded(signal), network(signal))
    assert torch.equal(folded(signal[:2]), network(signal[:2]))
    assert {tensor.shape for tensor in folded.state_dict().values()} == {(4, 4), (1, 4)}


@torch.no_grad()
def test_random_numbers_are_drawn_anew() -> None:
    network, signal = Generated(noise=True), torch.randn(3, 4)
    folded = fold_constants(traced(network, signal))
    assert any("rand" in name for name in targets(folded))
    assert not torch.equal(folded(signal), folded(signal))


def test_convolutions_over_three_axes_are_counted() -> None:
    network = nn.Sequential(nn.Conv3d(3, 2, 1), nn.Conv3d(2, 2, 1))
    program = torch.export.export(network, (torch.zeros(1, 3, 2, 4, 4),))
    assert shapes_of(program).convolutions_3d == 2
    assert shapes_of(program).largest_rank == 5
    images = torch.export.export(nn.Conv2d(3, 2, 1), (torch.zeros(1, 3, 4, 4),))
    assert (shapes_of(images).convolutions_3d, shapes_of(images).largest_rank) == (0, 4)
