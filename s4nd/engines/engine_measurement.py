"""Which engine is faster on this device: measured once per class of shapes, then cached.

`engine_choice.py` has a rule for CPUs. On another device the first call of a shape runs both
engines a few times (milliseconds), and the answer is kept in memory and in a file of the user's
cache folder, by name of the device. Nothing is measured while a call is traced, transformed or
captured as a CUDA graph, or runs on fake tensors: the rule decides there, unless the shape was
measured before. Under `torch.compile` and `torch.export` the rule always decides.

`S4ND_ENGINE_CHOICE=rule` in the environment turns the measurement off: the choice then depends on
the shape alone. `engine="matmul"` or `"fft"` sets it by hand.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from s4nd import conv
from s4nd.cache import may_keep

VARIABLE = "S4ND_ENGINE_CHOICE"
SAMPLES = 2**22  # of the signal that is measured: 16 MB in float32
ROUNDS, STEPS = 5, 3


class ShapeClass(NamedTuple):
    """Shapes that share an answer: sizes are rounded up to two binary digits after the first."""

    sizes: tuple[int, ...]
    lengths: tuple[int, ...]
    channels: int
    mixing: conv.Mixing
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """The key in the file."""
        axes = ["x".join(map(str, values)) for values in (self.sizes, self.lengths)]
        kind = "dense" if self.mixing.dense else "depthwise"
        groups, rank = self.mixing.groups, self.mixing.rank
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{axes[0]} kernel {axes[1]} channels {self.channels} {kind} {groups} {rank} {dtype}"


_known: dict[tuple[str, str], bool] = {}  # (device, class) -> whether matmul is faster
_read: set[Path] = set()


def measured_choice(
    sizes: Sequence[int],
    lengths: Sequence[int],
    channels: int,
    mixing: conv.Mixing,
    like: Tensor,
) -> bool | None:
    """Whether matmul is faster for this shape on the device of `like`; None if it is unknown.

    sizes and lengths: samples of the signal and of the kernel along each axis.
    """
    device = like.device
    if torch.compiler.is_compiling() or not is_measured(device) or not _switched_on():
        return None
    kind = device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype
    rounded = (tuple(map(_round_up, sizes)), tuple(map(_round_up, lengths)), _round_up(channels))
    shape = ShapeClass(*rounded, mixing, dtype)
    key = (device_name(device), shape.name)
    _read_file()
    if key not in _known and may_keep():
        try:
            _known[key] = _measure(shape, device)
        except torch.OutOfMemoryError:
            return None
        _write_file()
    return _known.get(key)


def is_measured(device: torch.device) -> bool:
    """Whether engines are timed on this device: CPUs use the rule, others cannot be timed."""
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and device.type == accelerator.type


def _switched_on() -> bool:
    value = os.environ.get(VARIABLE, "measure")
    if value not in ("measure", "rule"):
        raise ValueError(f"{VARIABLE} must be measure or rule, got {value!r}")
    return value == "measure"


def _round_up(value: int) -> int:
    """1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, …"""
    step = 2 ** max(math.floor(math.log2(value)) - 2, 0)
    return step * math.ceil(value / step)


def device_name(device: torch.device) -> str:
    """Name of the device and version of torch, because versions differ in speed."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"{name}, torch {torch.__version__}"


@torch.no_grad()  # no tensor is saved: a gradient checkpoint around this call counts saved tensors
def _measure(shape: ShapeClass, device: torch.device) -> bool:
    with torch.inference_mode(False), torch.autocast(device.type, enabled=False):
        steps = [step(shape, device) for step in (_matmul_step, _fft_step)]
        for step in steps:
            milliseconds(step, device)  # libraries choose algorithms, the allocator grows
        turns = [[milliseconds(step, device) for step in steps] for _ in range(ROUNDS)]
    matmul, fft = (median(times) for times in zip(*turns, strict=True))
    return matmul < fft


def _matmul_step(shape: ShapeClass, device: torch.device) -> Callable[[], object]:
    signal, taps, skip = _inputs(shape, device, shape.dtype)

    def step() -> Tensor:
        matrices = [conv.toeplitz(t, size) for t, size in zip(taps, shape.sizes, strict=True)]
        return conv.convolve_matmul(signal, matrices, skip, shape.mixing)

    return step


def _fft_step(shape: ShapeClass, device: torch.device) -> Callable[[], object]:
    wide = torch.promote_types(shape.dtype, torch.float32)
    signal, taps, skip = _inputs(shape, device, wide)
    return lambda: conv.convolve_fft(signal, taps, skip, shape.mixing)


def _inputs(
    shape: ShapeClass, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Signal, taps and skip, all ones: drawing random numbers would change a training."""
    samples = math.prod(shape.sizes)
    channels = max(min(shape.channels, SAMPLES // samples), 1)
    batch = max(min(SAMPLES // (samples * channels), 64), 1)
    outputs, groups = shape.mixing.rank * shape.mixing.groups, shape.mixing.groups
    signal = torch.ones(batch, channels, *shape.sizes, device=device, dtype=dtype)
    lengths = [min(pair) for pair in zip(shape.sizes, shape.lengths, strict=True)]
    taps = [torch.ones(outputs, channels, 2 * n, device=device, dtype=dtype) for n in lengths]
    return signal, taps, torch.ones(groups, channels, device=device, dtype=dtype)


def milliseconds(step: Callable[[], object], device: torch.device) -> float:
    """The time of a few steps on the device, from their launch to their end."""
    _wait(device)
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    _wait(device)
    return 1e3 * (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def cache_file() -> Path:
    """The file of all measurements, in the user's cache folder."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "s4nd" / "engines.json"


def _read_file() -> None:
    """Load what earlier processes measured; a file that cannot be read is ignored."""
    path = cache_file()
    if path in _read:
        return
    _read.add(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = {
            (device, name): engine == "matmul"
            for device, classes in content.items()
            for name, engine in classes.items()
        }
    except (OSError, ValueError, AttributeError):
        return
    for key, answer in found.items():
        _known.setdefault(key, answer)


def _write_file() -> None:
    """Write all measurements to the file; do nothing if its folder is not writable."""
    path = cache_file()
    _read.discard(path)
    _read_file()  # what other processes wrote since
    content: dict[str, dict[str, str]] = {}
    for (device, name), faster in sorted(_known.items()):
        content.setdefault(device, {})[name] = "matmul" if faster else "fft"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".engines-", delete=False, encoding="utf-8"
        ) as file:
            file.write(json.dumps(content, indent=2) + "\n")
        Path(file.name).replace(path)
    except OSError:
        return
