"""`videopipe doctor`: check the installation and the machine; every problem has a remedy."""

import argparse
import importlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from videopipe.commands.arguments import add_runs_argument

SUMMARY = "check versions, decoders, GPUs, memory and disk, each problem with its remedy"
EXAMPLES = """  videopipe doctor
  videopipe doctor --runs /data/runs
"""

ENOUGH_DISK_GB, ENOUGH_SHARED_MEMORY_GB = 20, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder whose disk is checked."""
    add_runs_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Print every finding; exit code 1 when videopipe does not work until a problem is solved."""
    signs = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}
    worst = "ok"  # of all findings
    for finding in examine(Path(args.runs)):
        print(f"{signs[finding.state]}{finding.what}", flush=True)
        if finding.remedy:
            print(f"        -> {finding.remedy}", flush=True)
        if finding.state == "problem":
            worst = "problem"
    if worst == "ok":
        print("To measure its speed on your files: videopipe bench YOUR_VIDEOS")
    return int(worst == "problem")


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check."""

    state: Literal["ok", "note", "problem"]
    what: str
    remedy: str = ""


def examine(runs: Path) -> Iterator[DoctorFinding]:
    """All findings, the fast checks first. A check that raises an error is a finding too."""
    checks: list[Callable[[], Iterator[DoctorFinding]]] = [
        check_python,
        check_torch,
        check_pairing,
        check_decoders,
        check_devices,
        check_shared_memory,
        lambda: check_disk(runs),
    ]
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - one broken library must not hide the rest
            name = getattr(check, "__name__", "check")
            yield DoctorFinding("problem", f"{name}: {type(error).__name__}: {error}")


def check_python() -> Iterator[DoctorFinding]:
    """The interpreter and the installed version of videopipe."""
    words = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield DoctorFinding("ok", f"{words}, videopipe {version('videopipe')}")


def check_torch() -> Iterator[DoctorFinding]:
    """The required libraries can be imported."""
    for package in ("torch", "torchvision", "timm", "accelerate", "pyarrow", "matplotlib"):
        try:
            importlib.import_module(package)
        except Exception as error:  # noqa: BLE001 - a broken build raises anything
            yield DoctorFinding(
                "problem",
                f"{package} cannot be imported: {type(error).__name__}: {error}",
                f"pip install --force-reinstall {package}",
            )
        else:
            yield DoctorFinding("ok", f"{package} {version(package)}")


def check_pairing() -> Iterator[DoctorFinding]:
    """torch and torchvision must be of one build."""
    torch, torchvision = version("torch"), version("torchvision")
    remedy = "pip install --upgrade torch torchvision (both from the same index)"
    for requirement in requires("torchvision") or []:
        wanted = re.match(r"torch\s*\(?==\s*([\w.]+)", requirement)
        if wanted and wanted[1] != torch.split("+")[0]:
            words = f"torchvision {torchvision} was built for torch {wanted[1]}, not for {torch}"
            yield DoctorFinding("problem", words, remedy)
    builds = {text.partition("+")[2] for text in (torch, torchvision)}
    if len(builds) > 1:
        yield DoctorFinding(
            "problem", f"torch {torch} and torchvision {torchvision} differ in build", remedy
        )
    try:
        import torch as torch_module
        import torchvision as torchvision_module

        boxes = torch_module.tensor([[0.0, 0.0, 1.0, 1.0]])
        torchvision_module.ops.nms(boxes, torch_module.tensor([1.0]), 0.5)
    except Exception as error:  # noqa: BLE001 - a mismatched pair raises anything
        yield DoctorFinding("problem", f"torchvision's operators do not load: {error}", remedy)
    else:
        yield DoctorFinding("ok", "torch and torchvision work together")


def check_decoders() -> Iterator[DoctorFinding]:
    """Each decoder reads a small video."""
    from videopipe.video.self_test import check_backends

    working = 0
    for name, problem in check_backends().items():
        if problem is None:
            working += 1
            yield DoctorFinding("ok", f"decoder {name} reads video{_version_of(name)}")
        else:
            yield DoctorFinding(
                "note", f"decoder {name} does not work here: {problem}", _remedy(name)
            )
    if not working:
        yield DoctorFinding("problem", "no decoder works", "pip install --force-reinstall av")


def check_devices() -> Iterator[DoctorFinding]:
    """GPUs and cores."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield DoctorFinding("ok", f"{cores} CPU cores, {torch.get_num_threads()} torch threads")
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        memory = properties.total_memory / 1e9
        yield DoctorFinding("ok", f"GPU {index}: {properties.name}, {memory:.0f} GB")
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        built = torch.version.cuda
        words = "no GPU: the demo runs in minutes without one, pretraining on ImageNet needs one"
        remedy = (
            f"if there is one, its driver is missing or older than CUDA {built}: see nvidia-smi"
            if built
            else "if there is one, install a torch build with CUDA"
        )
        yield DoctorFinding("note", words, remedy)


def check_shared_memory() -> Iterator[DoctorFinding]:
    """Data loaders of a training pass clips through shared memory."""
    place = Path("/dev/shm")
    if not place.is_dir():
        return
    total = shutil.disk_usage(place).total / 1e9
    if total < ENOUGH_SHARED_MEMORY_GB:
        yield DoctorFinding(
            "note",
            f"shared memory: {total:.2f} GB may be too little for many workers with large clips",
            "docker run --shm-size=8g, or fewer workers",
        )
    else:
        yield DoctorFinding("ok", f"shared memory: {total:.1f} GB")


def check_disk(runs: Path) -> Iterator[DoctorFinding]:
    """The disk of the runs folder: space, and that it can be written to."""
    place = next(
        folder for folder in (runs.absolute(), *runs.absolute().parents) if folder.exists()
    )
    free = shutil.disk_usage(place).free / 1e9
    if not os.access(place, os.W_OK):
        yield DoctorFinding(
            "problem", f"{place} cannot be written to", "choose another with --runs DIR"
        )
    elif free < ENOUGH_DISK_GB:
        yield DoctorFinding(
            "note",
            f"disk of {runs}: {free:.1f} GB free may be too little for a data set and checkpoints",
            "choose a larger one with --runs DIR",
        )
    else:
        yield DoctorFinding("ok", f"disk of {runs}: {free:.0f} GB free")


def _version_of(package: str) -> str:
    try:
        return f" ({version(package)})"
    except PackageNotFoundError:
        return ""


def _remedy(backend: str) -> str:
    if backend == "torchcodec":
        return (
            "optional: pip install torchcodec, and FFmpeg's shared libraries"
            " (apt install ffmpeg, or conda install ffmpeg)"
        )
    if backend == "decord" and platform.machine() != "x86_64":
        return "decord has no build for this machine; use the decoder av"
    return f"pip install --upgrade {backend}"
