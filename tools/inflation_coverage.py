"""Which timm architectures can be inflated, by every method, exactly and trainably?

    python tools/inflation_coverage.py --out coverage.jsonl --minutes 4   # repeat until complete
    python tools/inflation_coverage.py --out coverage.jsonl --summary

Takes the smallest architectures of each family (module) of timm, with random weights, at the
smallest input they accept. Each is inflated by each method with replicate padding; recorded are
the error if one occurs, the difference to the 2D logits on a still video, and whether a backward
pass reaches the layers along time. Results are appended line by line; a run
can be stopped at any time.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import _registry
from torch import nn

from videopipe.inflation.folded import FoldedNetwork, inflate

METHODS = ("s3d", "s4nd", "i3d", "center")
FRAMES, CLASSES = 3, 10
SIZES = (64, 96, 128, 192, 224, 256)  # pixels, tried in this order, then the network's own
LARGEST = 700_000_000  # parameters × 4 bytes × (weights, gradients, taps) must fit in memory
TOLERANCE = 1e-4


def smallest_of_families(per_family: int, record: Path) -> list[tuple[str, str, int]]:
    """(family, architecture, parameters); sizes are looked up once, without weights."""
    if record.exists():
        sizes = json.loads(record.read_text())
    else:
        sizes = {}
        for name in timm.list_models():
            with torch.device("meta"):
                network = timm.create_model(name, num_classes=CLASSES)
            count = sum(parameter.numel() for parameter in network.parameters())
            sizes[name] = (_registry._model_to_module[name], count)
        record.write_text(json.dumps(sizes))
    families = defaultdict(list)
    for name, (family, count) in sizes.items():
        families[family].append((count, name))
    chosen = [
        (place, count, family, name)
        for family, members in families.items()
        for place, (count, name) in enumerate(sorted(members)[:per_family])
        if count < LARGEST
    ]
    # The smallest of every family comes before the second smallest of any.
    return [(family, name, count) for _, count, family, name in sorted(chosen)]


def smallest_input(name: str) -> tuple[int, dict[str, Any]]:
    """The smallest input size that the network runs on, and how it is built for it."""
    own = timm.create_model(name, num_classes=CLASSES).default_cfg["input_size"][-1]
    problem: Exception | None = None
    for size in [*(size for size in SIZES if size < own), own]:
        for options in ({"img_size": size}, {}):
            try:
                torch.manual_seed(0)
                network = timm.create_model(name, num_classes=CLASSES, **options).eval()
                with torch.no_grad():
                    network(torch.zeros(1, 3, size, size))
            except Exception as error:  # noqa: BLE001 - any reason means: not at this size
                problem = error
            else:
                return size, options
    raise RuntimeError(f"does not build or run: {problem}")


def try_method(name: str, size: int, options: dict[str, Any], method: str) -> dict[str, Any]:
    """Inflate by one method; the error, or the difference of logits and the gradients."""
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=CLASSES, **options).eval()
    make_lively(network)
    image = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = network(image)
    if isinstance(expected, tuple):
        return {"error": "no classifier: it returns several outputs"}
    start = time.perf_counter()
    folded = inflate(network, method=method, num_frames=FRAMES, image_size=size)
    clip = image[:, :, None].expand(-1, -1, FRAMES, -1, -1)
    with torch.no_grad():
        actual = folded(clip)
    scale = expected.abs().max()
    moving = torch.randn(1, 3, FRAMES, size, size, generator=torch.Generator().manual_seed(2))
    folded(moving).square().sum().backward()
    return {
        "difference": float((actual - expected).abs().max() / scale),
        "layers": len(folded.plan.layers),
        "gradient": reaches_time(folded),
        "seconds": round(time.perf_counter() - start, 2),
    }


@torch.no_grad()
def make_lively(network: nn.Module) -> None:
    """Random weights where the initialisation hides layers: zero heads, tiny layer scales."""
    torch.manual_seed(3)
    for name, parameter in network.named_parameters():
        if parameter.ndim <= 1 and float(parameter.abs().max()) < 1e-2:
            parameter.normal_(std=0.1)
        elif float(parameter.abs().max()) == 0 or "gamma" in name:
            parameter.normal_(std=0.02)


def reaches_time(folded: FoldedNetwork) -> bool:
    """Every kernel along time has a finite gradient, and at least one is not zero."""
    gradients = [
        parameter.grad
        for layer in folded.plan.layers
        for name, parameter in folded.network.get_submodule(layer.name).named_parameters()
        if name == "weight" or name.startswith("time.")
    ]
    if any(gradient is None or not gradient.isfinite().all() for gradient in gradients):
        return False
    return any(gradient.any() for gradient in gradients if gradient is not None)


def run(out: Path, per_family: int, minutes: float, methods: list[str]) -> bool:
    """Resume the last run; True when nothing is left."""
    chosen = smallest_of_families(per_family, out.with_suffix(".sizes.json"))
    done = {(line["name"], line["method"]) for line in read(out)}
    end = time.monotonic() + 60 * minutes
    for family, name, count in chosen:
        missing = [method for method in methods if (name, method) not in done]
        if not missing:
            continue
        base = {"family": family, "name": name, "parameters": count}
        try:
            size, options = smallest_input(name)
        except RuntimeError as error:
            append(out, [{**base, "method": each, "error": str(error)[:300]} for each in missing])
            continue
        for method in missing:
            if time.monotonic() > end:
                return False
            try:
                found = try_method(name, size, options, method)
            except Exception as error:  # noqa: BLE001 - every failure is a result here
                found = {"error": f"{type(error).__name__}: {error}"[:300]}
            line = {**base, "method": method, "size": size, **found}
            append(out, [line])
            print(json.dumps(line), flush=True)
    return True


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def append(out: Path, lines: list[dict[str, Any]]) -> None:
    with out.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def summary(out: Path) -> str:
    """Markdown: shares by method, then every failure with its reason."""
    lines = read(out)
    names, families = {line["name"] for line in lines}, {line["family"] for line in lines}
    text = [
        f"{len(names)} architectures of {len(families)} families.",
        "",
        "| method | tried | inflated | exact to 1e-4 | gradient along time | largest difference |",
        "|---|---|---|---|---|---|",
    ]
    failures: dict[str, list[str]] = defaultdict(list)
    for method in METHODS:
        mine = [line for line in lines if line["method"] == method]
        built = [line for line in mine if "error" not in line]
        exact = [line["difference"] for line in built if line["difference"] <= TOLERANCE]
        text.append(
            f"| {method} | {len(mine)} | {len(built)} | {len(exact)} "
            f"({len(exact) / max(1, len(mine)):.1%}) | {sum(line['gradient'] for line in built)} "
            f"| {max(exact, default=0):.1e} |"
        )
        for line in mine:
            if verdict(line) != "exact":
                failures[f"{line['name']}: {verdict(line)}"].append(method)
    text += ["", "| not exact | methods |", "|---|---|"]
    text += [f"| {what} | {', '.join(methods)} |" for what, methods in sorted(failures.items())]
    return "\n".join(text)


def verdict(line: dict[str, Any]) -> str:
    if "error" in line:
        return str(line["error"]).replace("|", "/").replace("\n", " ")[:160]
    if not line["difference"] <= TOLERANCE:
        return "not exact"
    return "exact" if line["gradient"] else "exact, but no gradient along time"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("inflation_coverage.jsonl"))
    parser.add_argument("--per-family", type=int, default=2, help="smallest of each family (2)")
    parser.add_argument("--minutes", type=float, default=4, help="stop after this time (4)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--summary", action="store_true", help="print the results so far, run nothing"
    )
    args = parser.parse_args()
    if args.summary:
        print(summary(args.out))
        return
    torch.set_num_threads(1)
    finished = run(args.out, args.per_family, args.minutes, args.methods)
    print("complete" if finished else "time is over; the same command resumes")


if __name__ == "__main__":
    main()
