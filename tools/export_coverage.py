"""Which timm architectures can be exported to ONNX, by every method of inflation?

    python tools/export_coverage.py --out export.jsonl --minutes 20   # repeat until complete
    python tools/export_coverage.py --out export.jsonl --summary

Takes the smallest architecture of each family (module) of timm, with random weights, at the
smallest input it accepts, three frames. Each is inflated, exported with a dynamic batch, and run by
onnxruntime on batches of one and of three random clips. Recorded are the largest difference,
relative to the largest logit, or the reason of a failure. Results are appended line by line.

Every family is tried by one method, the methods taking turns, before any family is tried by a
second one. A run that was stopped so covers all families and all methods evenly.
"""

import argparse
import gc
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from coverage_summary import read
from inflation_coverage import CLASSES, FRAMES, append, lively_network, networks, smallest_input

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.export.agreement import compare
from videopipe.export.checkpoint_export import TOLERANCE
from videopipe.export.clip_graph import GraphInput, shapes_of, trace
from videopipe.export.file_formats import load_program, write_program
from videopipe.inflation.folded import inflate

METHODS = ("s4nd", "none", "s3d", "i3d", "center")


def try_export(name: str, size: int, resized: bool, method: str) -> dict[str, Any]:
    """Export one inflated network; how far onnxruntime is from it, and its operators."""
    network = lively_network(name, {"image_size": size} if resized else {}, CLASSES)
    folded = inflate(network, method=method, num_frames=FRAMES, image_size=size).eval()
    preprocessing = Preprocessing(image_size=size)
    card = ModelCard(architecture=name, ndim=3, num_frames=FRAMES, preprocessing=preprocessing)
    start = time.process_time()
    of = GraphInput.of(card, "float32")
    program = trace(folded, card, of, None)
    shapes = shapes_of(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        operators = write_program("onnx", program, path, (of.name, "logits"), {})
        seconds = time.process_time() - start
        generator = torch.Generator().manual_seed(1)
        shape = (4, 3, FRAMES, size, size)
        clips = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        found = compare(
            load_program("onnx", path), folded, card, of, ("random clips", clips),
            tolerance=TOLERANCE, batch_size=None,
        )  # fmt: skip
    return {
        "difference": found.difference,
        "same_top1": found.same_top1,
        "operators": sum(operators.values()),
        "convolutions_3d": shapes.convolutions_3d,
        "largest_rank": shapes.largest_rank,
        "seconds": round(seconds, 1),
    }


def in_turns(methods: Sequence[str], families: int) -> list[tuple[int, str]]:
    """(place of a family, method): one method for each family, then the next one for each."""
    count = len(methods)
    return [
        (place, methods[(place + turn) % count])
        for turn in range(count)
        for place in range(families)
    ]


def run(out: Path, minutes: float, methods: list[str], families: int | None) -> bool:
    """Resume the last run; True when nothing is left."""
    every = networks(1, out.with_suffix(".sizes.json"))
    chosen = [line for line in every if line[1].startswith("timm/")][:families]
    lines = read(out)
    done = {(line["name"], line["method"]) for line in lines}
    known = {line["name"]: (line["size"], line["resized"]) for line in lines if "size" in line}
    end = time.monotonic() + 60 * minutes
    for place, method in in_turns(methods, len(chosen)):
        family, name, count = chosen[place]
        if (name, method) in done:
            continue
        if time.monotonic() > end:
            return False
        line = {"family": family, "name": name, "parameters": count, "method": method}
        try:
            size, resized = known[name] = known.get(name) or smallest_input(name)
            line |= {"size": size, "resized": resized}
            line |= try_export(name, size, resized, method)
        except Exception as error:  # noqa: BLE001 - every failure is a result here
            line["error"] = f"{type(error).__name__}: {error}"[:600]
        append(out, line)
        print(json.dumps(line), flush=True)
        gc.collect()
    return True


def summary(out: Path) -> str:
    """Markdown: shares by method, then every failure with its reason."""
    lines = read(out)
    text = [
        "| method | tried | exported | within 1e-4 | largest difference |",
        "|---|---|---|---|---|",
    ]
    failures: dict[str, list[str]] = defaultdict(list)
    for method in METHODS:
        mine = [line for line in lines if line["method"] == method]
        if not mine:
            continue
        written = [line for line in mine if "error" not in line]
        exact = [line for line in written if line["difference"] <= TOLERANCE]
        largest = max((line["difference"] for line in written), default=0)
        text.append(
            f"| `{method}` | {len(mine)} | {len(written)} | {len(exact)} "
            f"({len(exact) / len(mine):.0%}) | {largest:.1e} |"
        )
        for line in mine:
            if "error" in line or not line["difference"] <= TOLERANCE:
                reason = line.get("error") or f"difference {line['difference']:.1e}"
                reason = reason.replace("|", "/").replace("\n", " ")[:200]
                failures[f"`{line['name']}` | {reason}"].append(method)
    text += ["", "| architecture | reason | methods |", "|---|---|---|"]
    text += [f"| {what} | {', '.join(methods)} |" for what, methods in sorted(failures.items())]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("export_coverage.jsonl"))
    parser.add_argument("--minutes", type=float, default=20, help="stop after this time (20)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--families", type=int, help="only this many, the smallest first (all)")
    parser.add_argument("--summary", action="store_true", help="print the results so far")
    args = parser.parse_args()
    if args.summary:
        print(summary(args.out))
        return
    torch.set_num_threads(1)
    gc.disable()  # between trials only: tracing makes millions of objects, which stay until its end
    finished = run(args.out, args.minutes, args.methods, args.families)
    print("complete" if finished else "time is over; the same command resumes")


if __name__ == "__main__":
    main()
