"""Time and memory of one step on a device: clocks and /proc for CPUs, events for GPUs."""

import time
from collections.abc import Callable
from pathlib import Path

import torch

Step = Callable[[], None]
WARM_UP_STEPS = 10  # on a GPU: libraries choose algorithms, the allocator grows, clocks rise


def check_device(name: str) -> torch.device:
    """The device of this name; SystemExit when it is not there."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SystemExit(f"--device {name} is not there ({reason}); use cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise SystemExit(f"--device is {name}; times are measured on cpu and cuda only")
    return device


def device_name(device: torch.device) -> str:
    """`cpu`, or the name of the GPU."""
    return "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)


def warm_up(step: Step, device: torch.device) -> None:
    """Once on a CPU, several times on a GPU, to its end."""
    for _ in range(1 if device.type == "cpu" else WARM_UP_STEPS):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(step: Step, device: torch.device) -> float:
    """The time of one step. On a GPU between two events, so that launching does not end it."""
    if device.type == "cpu":
        start = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - start)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def added_megabytes(step: Step, device: torch.device) -> float:
    """The most memory that one step holds beside what was there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        step()
        torch.cuda.synchronize(device)
        return float(torch.cuda.max_memory_allocated(device) - before) / 2**20
    with Path("/proc/self/clear_refs").open("w") as peak:
        peak.write("5")  # the highest resident size so far (loading libraries) is forgotten
    resident = _process_megabytes("VmRSS")
    step()
    return _process_megabytes("VmHWM") - resident


def _process_megabytes(field: str) -> float:
    """Memory of this process: VmRSS is the current size, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
