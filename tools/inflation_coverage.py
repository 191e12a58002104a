"""Which networks of timm and torchvision can be inflated, by every method, exactly and trainably?

    python tools/inflation_coverage.py --out coverage.jsonl --minutes 4   # repeat until complete
    python tools/inflation_coverage.py --out coverage.jsonl --summary

Takes the smallest architectures of each family (module) of timm and every classifier of
torchvision, with random weights, at the smallest input they accept. Each is inflated by each method
with replicate padding, as a classifier, as an encoder (`num_classes=0`) and through its feature
maps. Recorded are the error if one occurs, the difference to the 2D result on a still video, and
whether a backward pass reaches the layers along time. Each network is built once for all its
trials, an encoder also for its feature maps; small networks come first. Results are appended line
by line; a run can be stopped at any time.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from coverage_summary import read, summary
from timm.models import _registry
from torch import Tensor, nn

from pretrained_2d.networks.backbones import build
from videopipe.inflation.feature_maps import feature_maps
from videopipe.inflation.folded import FoldedNetwork, inflate

METHODS = ("s4nd", "i3d", "s3d", "center", "shift", "adapter", "attention")
SUBJECTS = ("encoder", "features", "classifier")
FRAMES, CLASSES = 3, 10
SIZES = (64, 96, 128, 192, 224, 256)  # pixels, tried in this order, then the network's own
LARGEST = 700_000_000  # parameters × 4 bytes × (weights, gradients, taps) must fit in memory


def networks(per_family: int, record: Path) -> list[tuple[str, str, int]]:
    """(family, architecture, parameters); sizes are looked up once, without weights."""
    if record.exists():
        sizes = json.loads(record.read_text())
    else:
        names = [f"timm/{name}" for name in timm.list_models()]
        classifiers = torchvision.models.list_models(module=torchvision.models)
        names += [f"torchvision/{name}" for name in classifiers]
        sizes = {name: (family_of(name), parameter_count(name)) for name in names}
        record.write_text(json.dumps(sizes))
    families = defaultdict(list)
    for name, (family, count) in sizes.items():
        families[family].append((count, name))
    chosen = [
        (count, family, name)
        for family, members in families.items()
        # encoders of language models, which give tokens and not one vector, come last
        for place, (count, name) in enumerate(
            sorted(members, key=lambda member: (member[1].endswith("_enc"), member))
        )
        if count < LARGEST and (place < per_family or name.startswith("torchvision/"))
    ]
    return [(family, name, count) for count, family, name in sorted(chosen)]


def parameter_count(name: str) -> int:
    """Counted without weights (`meta`) where the architecture can be built so.

    RegNets of torchvision compute widths with tensors and need a real device. 0 stands for an
    architecture that cannot be built at all; its trials record the reason.
    """
    for device in ("meta", "cpu"):
        try:
            with torch.device(device):
                network = build(name, num_classes=CLASSES)
        except Exception:  # noqa: BLE001 - the trials of the architecture record the reason
            continue
        return sum(parameter.numel() for parameter in network.parameters())
    return 0


def family_of(name: str) -> str:
    library, _, own = name.partition("/")
    if library == "timm":
        return str(_registry._model_to_module[own])
    return "torchvision." + torchvision.models.get_model_builder(own).__module__.rpartition(".")[2]


def smallest_input(name: str) -> tuple[int, bool]:
    """The smallest input size that the network runs on, and whether it is built for it.

    Sizes are tried without weights (`meta`), and with weights only where no size works so.
    """
    own = 224
    if name.startswith("timm/"):
        own = timm.models.get_pretrained_cfg(name[5:]).input_size[-1]
    sizes = [*(size for size in SIZES if size < own), own]
    problem = None
    for device in ("meta", "cpu"):
        for size in sizes:
            for resized in (True, False):
                problem = problem_with(name, size, resized, device)
                if not problem:
                    return size, resized
    raise RuntimeError(f"does not build or run: {problem}")


def problem_with(name: str, size: int, resized: bool, device: str) -> str | None:
    """Why the network does not run at this size; None if it does."""
    options = {"image_size": size} if resized else {}
    try:
        with torch.device(device), torch.no_grad():
            network = build(name, num_classes=CLASSES, **options).eval()
            network(torch.zeros(1, 3, size, size))
    except Exception as error:  # noqa: BLE001 - any reason means: not at this size
        return str(error) or type(error).__name__
    return None


def results(network: nn.Module, signal: Tensor, subject: str) -> list[Tensor]:
    """Logits, features, or the maps of all levels; maps of a clip have time as their third axis."""
    if subject != "features":
        return [network(signal)]
    if isinstance(network, FoldedNetwork):
        return network.features(signal)
    return feature_maps(network, signal, None)


def try_method(
    network: nn.Module, size: int, method: str, subjects: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Inflate a copy by one method once; for each subject, the difference to 2D and gradients."""
    start = time.process_time()
    torch.manual_seed(4)
    folded: FoldedNetwork | None = None
    for subject in subjects:
        try:
            if folded is None:
                copy = deepcopy(network)
                folded = inflate(copy, method=method, num_frames=FRAMES, image_size=size)
            found = compared(network, folded, size, subject)
        except Exception as error:  # noqa: BLE001 - every failure is a result here
            found = described(error)
        seconds = round(time.process_time() - start, 2)
        yield {"method": method, "subject": subject, **found, "processor_seconds": seconds}
        start = time.process_time()


def compared(network: nn.Module, folded: FoldedNetwork, size: int, subject: str) -> dict[str, Any]:
    """Difference of a still clip to the 2D result, and gradients of a moving one."""
    image = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1))
    moving = torch.randn(1, 3, FRAMES, size, size, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = results(network, image, subject)
        clip = image[:, :, None].expand(-1, -1, FRAMES, -1, -1)
        actual = results(folded, clip, subject)
    differences = [difference(one, other) for one, other in zip(actual, expected, strict=True)]
    folded.zero_grad()
    torch.stack([part.square().sum() for part in results(folded, moving, subject)]).sum().backward()
    return {
        "difference": max(differences),
        "layers": len(folded.plan.layers),
        "gradient": reaches_time(folded, every=subject != "features"),
    }


def described(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"[:300]}


def difference(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest 2D value; maps are compared at every step."""
    if actual.ndim == 5:
        expected = expected[:, :, None].expand_as(actual)
    return float((actual - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def lively_network(name: str, options: dict[str, Any], num_classes: int) -> nn.Module:
    """Random weights, also where the initialisation hides layers: zero heads, tiny layer scales."""
    torch.manual_seed(0)
    network = build(name, num_classes=num_classes, **options).eval()
    for own, parameter in network.named_parameters():
        if parameter.ndim <= 1 and float(parameter.abs().max()) < 1e-2:
            parameter.normal_(std=0.1)
        elif float(parameter.abs().max()) == 0 or "gamma" in own:
            parameter.normal_(std=0.02)
    return network


def reaches_time(folded: FoldedNetwork, *, every: bool) -> bool:
    """Kernels along time have finite gradients, and at least one is not zero.

    every: all of them must have one; layers behind the last feature level have none. A shift has no
    parameters of its own.
    """
    gradients = [
        parameter.grad
        for layer in folded.plan.layers
        for name, parameter in folded.network.get_submodule(layer.name).named_parameters()
        if name == "weight" or name.startswith("time.") or folded.plan.options.method == "shift"
    ]
    there = [gradient for gradient in gradients if gradient is not None]
    has_none = folded.plan.options.method == "shift"  # 2D parameters may be unused
    complete = len(there) == len(gradients) or not every or has_none
    finite = all(bool(gradient.isfinite().all()) for gradient in there)
    return complete and finite and any(gradient.any() for gradient in there)


def trials(
    name: str, known: tuple[int, bool] | None, missing: list[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """Results of the missing trials of an architecture; known: its recorded `smallest_input`."""
    try:
        size, resized = known or smallest_input(name)
    except RuntimeError as error:
        for method, subject in missing:
            yield {"method": method, "subject": subject, "error": str(error)[:300]}
        return
    options = {"image_size": size} if resized else {}
    base = {"size": size, "resized": resized}
    for classes in (0, CLASSES):  # an encoder gives the feature maps as well
        mine = [trial for trial in missing if classes == (trial[1] == "classifier") * CLASSES]
        try:
            network = lively_network(name, options, classes) if mine else None
        except Exception as error:  # noqa: BLE001 - every failure is a result here
            for method, subject in mine:
                yield base | {"method": method, "subject": subject} | described(error)
            continue
        for method in dict.fromkeys(method for method, _ in mine):
            subjects = [subject for one, subject in mine if one == method]
            for found in try_method(network, size, method, subjects):
                yield base | found


def run(args: argparse.Namespace) -> bool:
    """Resume the last run; True when nothing is left."""
    out = args.out
    lines = read(out)
    done = {(line["name"], line["method"], line["subject"]) for line in lines}
    known = {line["name"]: (line["size"], line["resized"]) for line in lines if "size" in line}
    end = time.monotonic() + 60 * args.minutes
    for family, name, count in networks(args.per_family, out.with_suffix(".sizes.json")):
        missing = [
            (method, subject)
            for subject in args.subjects
            for method in args.methods
            if (name, method, subject) not in done
            # torchvision does not name feature levels
            and not (subject == "features" and name.startswith("torchvision/"))
        ]
        if not missing or args.library not in (None, name.partition("/")[0]):
            continue
        if time.monotonic() > end:
            return False
        base = {"family": family, "name": name, "parameters": count}
        for line in trials(name, known.get(name), missing):
            append(out, base | line)
            print(json.dumps(base | line), flush=True)
            if time.monotonic() > end:
                return False
    return True


def append(out: Path, line: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("inflation_coverage.jsonl"))
    parser.add_argument(
        "--per-family", type=int, default=2, help="smallest of each family of timm (2)"
    )
    parser.add_argument("--minutes", type=float, default=4, help="stop after this time (4)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--library", choices=("timm", "torchvision"), help="one of them (both)")
    parser.add_argument("--summary", action="store_true", help="print the results so far")
    args = parser.parse_args()
    if args.summary:
        print(summary(args.out))
        return
    torch.set_num_threads(1)
    print("complete" if run(args) else "time is over; the same command resumes")


if __name__ == "__main__":
    main()
