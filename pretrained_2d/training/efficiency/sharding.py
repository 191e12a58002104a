"""Fully sharded training (FSDP2): every process holds a part of each parameter.

A block gathers its parameters for its forward and backward pass; gradients and the state of the
optimiser stay in parts. Accelerate applies its plugin on GPUs only. `fully_shard` is called here
instead, so that CPU processes run the same code.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from pretrained_2d.training.efficiency.recomputation import find_blocks


def sharded_copy(network: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the network on `device` whose parameters are divided among all processes.

    Each block gathers its parameters on its own; parameters outside blocks are gathered with the
    network. The parameters of the copy have the names of the original.
    """
    copied = deepcopy(network).to(device)
    for parameter in copied.parameters():
        parameter.data = parameter.data.contiguous()  # not channels last: FSDP refuses it
    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
    for block in find_blocks(copied).values():
        fully_shard(block, mesh=mesh)
    fully_shard(copied, mesh=mesh)
    return copied


@torch.no_grad()
def copy_whole(sharded: nn.Module, network: nn.Module) -> None:
    """Copy the weights of a sharded network to its original; every process must call it.

    Buffers, which are not sharded, are those of the first process.
    """
    target = network.state_dict()
    for name, value in sharded.state_dict().items():
        if not isinstance(value, DTensor):
            distributed.broadcast(value, 0)
        target[name].copy_(whole(value))


@torch.no_grad()
def copy_parts(network: nn.Module, sharded: nn.Module) -> None:
    """Copy the weights of a network to its sharded copy."""
    source = network.state_dict()
    for name, value in sharded.state_dict().items():
        value.copy_(like(source[name], value))


def whole(value: Tensor) -> Tensor:
    """A sharded tensor gathered in every process; any other as it is."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def whole_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an optimiser with whole tensors on the CPU; every process must call it."""
    return {**state, "state": _on_cpu(state["state"])}


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _on_cpu(each) for key, each in value.items()}
    return whole(value).cpu() if isinstance(value, Tensor) else value


def like(value: Tensor, sharded: Tensor) -> Tensor:
    """A whole tensor divided as another one is."""
    if not isinstance(sharded, DTensor):
        return value
    value = value.to(sharded.device)
    return distribute_tensor(value, sharded.device_mesh, sharded.placements)


def divided_state(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A saved state of the optimiser whose moments are divided as the parameters are."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    divided = {
        index: {
            name: like(value, parameters[index]) if _has_shape(value, parameters[index]) else value
            for name, value in values.items()
        }
        for index, values in state["state"].items()
    }
    return {**state, "state": divided}


def _has_shape(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape
