"""The processes of one run: one, or those that `accelerate launch` or `torchrun` started."""

import atexit
import os
from datetime import timedelta
from functools import cache
from typing import Any

from videopipe.errors import VideopipeError

# A stage that runs in the first process only may take days while the others wait for it.
GROUP_TIMEOUT = timedelta(days=60)


class Processes:
    """The rank of this process, the number of processes, and communication between them."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self._group: Any = _connect(self.count) if self.count > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the first process, which plans and completes results."""
        return self.rank == 0

    def share(self, value: Any = None) -> Any:
        """The first process's value, in every process; all of them must call it."""
        if self._group is None:
            return value
        import torch

        box = [value]
        torch.distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes by rank, in every process; all of them must call it."""
        if self._group is None:
            return [value]
        import torch

        values: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(values, value, group=self._group)
        return values

    def wait(self) -> None:
        """Wait until every process has called this."""
        if self._group is not None:
            import torch

            torch.distributed.barrier(group=self._group)


@cache
def connected_processes() -> Processes:
    """The processes of this launch; they connect at the first call, in which all take part."""
    return Processes()


def _connect(count: int) -> Any:
    import torch
    from accelerate import PartialState

    if not torch.accelerator.is_available():
        # Without a GPU, accelerate otherwise treats each process as the only one.
        os.environ["ACCELERATE_USE_CPU"] = "true"
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    state = PartialState(cpu=on_cpu)  # starts the process group that training will use
    if on_cpu:
        # Threads of the group that outlive the interpreter can abort a finished process.
        atexit.register(_destroy_group)
    if state.num_processes != count:
        raise VideopipeError(
            f"this is one of {count} processes (WORLD_SIZE), but accelerate sees"
            f" {state.num_processes}; start them with `accelerate launch` or `torchrun`"
        )
    return torch.distributed.new_group(backend="gloo", timeout=GROUP_TIMEOUT)


def _destroy_group() -> None:
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
