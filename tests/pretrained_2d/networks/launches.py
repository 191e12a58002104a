"""What a step launches on a device, counted by a dispatch mode that refuses synchronisation."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# They synchronise with the device, because the host needs a number or a size.
SYNCHRONISING = {
    aten._local_scalar_dense,
    aten.equal,
    aten.is_nonzero,
    aten.masked_select,
    aten.nonzero,
    aten.unique_dim,
    aten._unique2,
    aten._linalg_check_errors,
    aten.linalg_solve,
    aten._linalg_solve_ex,
    aten.linalg_inv_ex,
}
# They launch nothing: uninitialised memory, and views that are not marked as views.
FREE = {aten.detach, aten.alias, aten._unsafe_view, aten.empty, aten.empty_like, aten.promote_types}


class Launches(TorchDispatchMode):
    """Counts operations that are not views."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        packet = function.overloadpacket
        on_host = packet in SYNCHRONISING and args[0].device.type == "cpu"  # a counter of Adam
        assert on_host or packet not in SYNCHRONISING, f"{function} waits for the device"
        assert not _leaves_the_device(packet, args, kwargs or {}), f"{function} changes the device"
        if not function.is_view and packet not in FREE and not on_host:
            self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))

    def total(self):
        return sum(self.counts.values())


def _leaves_the_device(packet, args, kwargs):
    if packet is aten._to_copy:
        device = kwargs.get("device")
        return device is not None and torch.device(device).type != args[0].device.type
    return packet is aten.copy_ and args[0].device != args[1].device


def training_step(network, signal, target, optimiser=None):
    """Forward, loss, backward and, if there is an optimiser, its update."""
    torch.nn.functional.cross_entropy(network(signal), target).backward()
    if optimiser is not None:
        optimiser.step()
        optimiser.zero_grad()
