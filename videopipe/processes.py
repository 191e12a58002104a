"""The processes of one run: one, or those that `accelerate launch` or `torchrun` started."""

import atexit
import os
from datetime import timedelta
from typing import Any

from videopipe.errors import VideopipeError

# A stage that runs in the first process only may take days while the others wait for it.
PATIENCE = timedelta(days=60)


class Processes:
    """Which of how many processes this is, and how the first one tells the others something."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self._group: Any = _connect(self.count) if self.count > 1 else None

    @property
    def first(self) -> bool:
        """Whether this process plans and completes."""
        return self.rank == 0

    def share(self, value: Any = None) -> Any:
        """The first process's value, in every process; all of them must call it."""
        if self._group is None:
            return value
        import torch

        box = [value]
        torch.distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def wait(self) -> None:
        """Go on when every process has come here."""
        if self._group is not None:
            import torch

            torch.distributed.barrier(group=self._group)


def _connect(count: int) -> Any:
    import torch
    from accelerate import PartialState

    if not torch.accelerator.is_available():
        # Without it accelerate takes each process for the only one when there is no GPU.
        os.environ["ACCELERATE_USE_CPU"] = "true"
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    state = PartialState(cpu=on_cpu)  # starts the process group the way training will want it
    if on_cpu:
        # Its threads, if they outlive the interpreter, can abort a process that has done its work.
        atexit.register(_leave)
    if state.num_processes != count:
        raise VideopipeError(
            f"this is one of {count} processes (WORLD_SIZE), but accelerate sees"
            f" {state.num_processes}; start them with `accelerate launch` or `torchrun`"
        )
    return torch.distributed.new_group(backend="gloo", timeout=PATIENCE)


def _leave() -> None:
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
