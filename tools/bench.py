"""All benchmarks in one table: `make bench`, under ten minutes on two cores.

    python tools/bench.py                     all parts
    python tools/bench.py --videos FOLDER     decode and predict your own videos
    python tools/bench.py --parts layer step --json numbers.json
    python tools/bench.py --write              put the table into docs/performance.md

Calls the tools `bench_*.py` at a small size, one after the other; each can be run alone.
A ratio is our speed divided by that of the named alternative, measured in the same run, in turns,
as the median of several: above 1 is faster. Ratios are reliable on an idle machine only. The
targets are those of the rows below, and stated nowhere else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench_table import Row, machine, table, write_page

TOOLS = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("VIDEOPIPE_SHARED", TOOLS.parents[1] / "shared")) / "data"
Results = dict[str, Any]


def layer_rows(found: Results) -> Iterator[Row]:
    """Against the FFT and against the convolution that the layer replaces."""
    for layer in found["layers"]:
        shape, times = "×".join(map(str, layer["shape"])), layer["milliseconds"]
        ours, video = times["matmul"], len(layer["shape"]) == 5
        large = layer["shape"][2] >= 28
        convolution = min(ms for name, ms in times.items() if name.startswith("convolution"))
        kernel = "3×7×7" if video else "7×7"
        against_fft = 10 if video else 6 if large else 3
        against_convolution = 5 if video else 1
        here = f"S4ND {ours:.1f} ms"
        yield Row(
            "layer", shape, here, f"FFT {times['fft']:.1f} ms", times["fft"] / ours, against_fft
        )
        yield Row(
            "layer", shape, here, f"depthwise {kernel} {convolution:.1f} ms", convolution / ours,
            against_convolution,
        )  # fmt: skip
        if video:
            used, other = (layer["peak_megabytes"][name] for name in ("matmul", "fft"))
            yield Row(
                "memory", shape, f"S4ND {used:.0f} MB", f"FFT {other:.0f} MB", used / other, 0.25,
                at_least=False,
            )  # fmt: skip


def step_rows(found: Results) -> Iterator[Row]:
    """A whole training step."""
    times = found["network"]["milliseconds"]
    yield Row(
        "network step", "8×3×224×224", f"S4ND-ConvNeXt-T {times['s4nd'] / 1e3:.2f} s",
        f"ConvNeXt-T {times['conv'] / 1e3:.2f} s", times["conv"] / times["s4nd"], 1 / 0.9,
    )  # fmt: skip
    yield Row(
        "kernels", "8×3×224×224", f"generated in {times['kernels']:.0f} ms",
        f"whole step {times['s4nd']:.0f} ms", times["kernels"] / times["s4nd"], 0.15,
        at_least=False,
    )  # fmt: skip


# Rows of tools/bench_inflation.py beside the 2D network, and the targets of those that have one.
INFLATED = {
    "s4nd": 1 / 1.1, "s3d, one vector per layer": 1 / 1.3, "i3d, folded": None,
    "center, folded": None, "shift": None, "adapter": None, "adapter, s4nd kernel": None,
    "attention": None,
}  # fmt: skip
LONG, SHORT = list(INFLATED)[:3], list(INFLATED)[3:]  # on 30 frames; on 8, to save time


def inflation_rows(found: Results) -> Iterator[Row]:
    """A training step of a network with time, beside the same frames without."""
    seconds = {name: times[0] for name, times in found["seconds"].items()}
    shape = "1×3×{num_frames}×{image_size}×{image_size}".format(**found["arguments"])
    flat = seconds["2D network, same frames"]
    naive = next((took for name, took in seconds.items() if "naive" in name), None)
    for name, target in INFLATED.items():
        if name in seconds:
            ours = f"ConvNeXt-T {name.replace(', one vector per layer', '')} {seconds[name]:.2f} s"
            yield Row(
                "inflation", shape, ours, f"2D, same frames {flat:.2f} s", flat / seconds[name],
                target,
            )  # fmt: skip
    if naive is not None and "i3d, folded" in seconds:
        ours = seconds["i3d, folded"]
        yield Row(
            "inflation", shape, f"ConvNeXt-T i3d {ours:.2f} s", f"plain Conv3d {naive:.2f} s",
            naive / ours, 1.0,
        )  # fmt: skip


def decode_rows(found: Results) -> Iterator[Row]:
    """Clips out of files, one process."""
    took = found["milliseconds"]
    shape = f"{found['clips']} clips of 30 frames in 2 s"
    plain = [took[way] for way in ("plain torchcodec", "plain decord") if way in took]
    for ours, way, target in (
        ("av", "pytorchvideo pyav", 5.0),
        ("av", "pytorchvideo decord", 2.0),
        ("av", "plain torchcodec", 1 / 1.5),
    ):
        if way in took:
            yield Row(
                "decoding", shape, f"{ours} {took[ours]:.1f} ms", f"{way} {took[way]:.1f} ms",
                took[way] / took[ours], target,
            )  # fmt: skip
    if plain:
        yield Row(
            "decoding", shape, f"auto {took['auto']:.1f} ms",
            f"best of plain torchcodec, decord {min(plain):.1f} ms", min(plain) / took["auto"], 1.0,
        )  # fmt: skip


def predict_rows(found: Results) -> Iterator[Row]:
    """The whole of `predict`, beside its parts and beside a plain loop."""
    for name, speed in found["throughput"].items():
        slower = min(("decoding", "model"), key=lambda part: speed[part])
        yield Row(
            "prediction", f"{name} network", f"whole {speed['together']:.1f} clips/s",
            f"{slower} alone {speed[slower]:.1f} clips/s", speed["together"] / speed[slower],
            {"light": 0.9, "heavy": 0.95}[name],
        )  # fmt: skip
    ours, plain = found["loop"]["ours"], found["loop"]["plain"]
    yield Row(
        "prediction", "light network", f"whole {ours:.1f} clips/s",
        f"loop over pytorchvideo {plain:.2f} clips/s", ours / plain, 3.0,
    )  # fmt: skip
    first = sorted(found["start"]["seconds"])[len(found["start"]["seconds"]) // 2]
    yield Row(
        "prediction", "first row", f"after {first:.1f} s", "10 s", first / 10, 1.0, at_least=False
    )
    for way in ("embeddings", "features"):
        if way in found.get("vectors", {}):
            speed = found["vectors"]
            yield Row(
                "prediction", "light network", f"{way} {speed[way]:.1f} videos/s",
                f"classes {speed['classes']:.1f} videos/s", speed[way] / speed["classes"],
            )  # fmt: skip
    if "write" in found:
        yield Row(
            "prediction", "1,024 numbers each", "embeddings, safe from a kill",
            "plain pyarrow, Parquet", found["write"]["share_of_pyarrow"], 0.8,
        )  # fmt: skip


def export_rows(found: Results) -> Iterator[Row]:
    """Exported files beside eager PyTorch, one forward pass."""
    for name, one in found["exported"].items():
        times, shape = one["milliseconds"], "×".join(map(str, one["shape"]))
        runtimes = {"onnx": "onnxruntime", "pt2": "pt2"}
        for format in (each for each in runtimes if each in times):
            yield Row(
                "export", shape, f"{name} {runtimes[format]} {times[format]:.0f} ms",
                f"eager {times['eager']:.0f} ms", times["eager"] / times[format],
            )  # fmt: skip


PARTS: dict[str, tuple[list[str], Callable[[Results], Iterator[Row]]]] = {
    "layer": (["bench_layer.py", "--rounds", "20"], layer_rows),
    "step": (["bench_layer.py", "--network", "--rounds", "20"], step_rows),
    "inflation": (["bench_inflation.py", "--rows", *LONG], inflation_rows),
    "methods": (["bench_inflation.py", "--no-naive", "--num-frames", "8", "--rows", *SHORT],
                inflation_rows),
    "decoding": (["bench_decode.py", "VIDEOS", "--no-workers", "--ways", "auto", "av",
                  "plain torchcodec", "plain decord", "pytorchvideo decord",
                  "pytorchvideo pyav"], decode_rows),
    "prediction": (["bench_predict.py", "--data", "VIDEOS", "--parts", "throughput", "loop",
                    "start", "vectors", "write"], predict_rows),
    "export": (["bench_export.py", "--rounds", "10"], export_rows),
}  # fmt: skip


def measure(part: str, videos: dict[str, Path], folder: Path) -> Results:
    """Run a tool; what it prints goes to stderr."""
    command, _ = PARTS[part]
    out = folder / f"{part}.json"
    words = [str(videos[part]) if word == "VIDEOS" else word for word in command]
    print(f"== {' '.join(command)}", file=sys.stderr, flush=True)
    subprocess.run(
        [sys.executable, str(TOOLS / words[0]), *words[1:], "--json", str(out)],
        check=True,
        stdout=sys.stderr,
    )
    found: Results = json.loads(out.read_text())
    return found


def find_videos(given: Path | None, folder: Path) -> tuple[str, dict[str, Path]]:
    """Which videos, and the folder of each part that decodes."""
    if given is not None:
        return "own videos", dict.fromkeys(("decoding", "prediction"), given)
    real = {"decoding": SHARED / "hmdb51" / "videos", "prediction": SHARED / "clips"}
    if all(place.is_dir() for place in real.values()):
        return "clips of HMDB-51 and Kinetics", real
    from videopipe.pipeline.stage import Inputs
    from videopipe.stages.generate import GenerateConfig, run

    config = GenerateConfig(
        train_videos=1, val_videos=0, test_videos=0, unseen_videos=0, train_images=0, val_images=0,
        size_pixels=160, shortest_seconds=3.0, longest_seconds=5.0,
    )  # fmt: skip
    run(config, Inputs({}), folder)
    return "generated videos", dict.fromkeys(real, folder / "videos")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--videos", type=Path, help="folder (default: the real clips, or generated ones)"
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path, help="write the table here too")
    parser.add_argument(
        "--write", action="store_true", help="replace the table in docs/performance.md"
    )
    args = parser.parse_args()
    if args.write and args.parts != list(PARTS):
        parser.error("--write puts the whole table into the page; leave out --parts")
    rows: list[Row] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        which, videos = find_videos(args.videos, Path(name))
        for part in args.parts:
            rows += PARTS[part][1](measure(part, videos, Path(name)))
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    about = (
        f"{machine()}; {which}; medians of several turns; {minutes}:{seconds:02} minutes in all."
    )
    text = f"{about}\n\n{table(rows)}"
    print(text)
    if args.write:
        write_page(text)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
