"""Two processes train a folded network as one does: DDP on gloo."""

import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from tests.videopipe.inflation.small_network import Small
from videopipe.inflation import inflate


def make() -> nn.Module:
    torch.manual_seed(0)
    return inflate(
        Small(), method="s4nd", num_frames=4, state=4, image_size=8, start="random"
    ).train()


def clips() -> Tensor:
    return torch.randn(4, 3, 4, 8, 8, generator=torch.Generator().manual_seed(1))


def train_one(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    network = DistributedDataParallel(make())
    network(clips()[2 * rank : 2 * rank + 2]).square().mean().backward()
    torch.save([p.grad for p in network.parameters()], Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(train_one, (port, str(tmp_path)), nprocs=2)
    network = make()
    network(clips()).square().mean().backward()
    for rank in (0, 1):
        shared = torch.load(tmp_path / f"{rank}.pt")
        for gradient, parameter in zip(shared, network.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-6)
