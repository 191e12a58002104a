"""`videopipe bench`: measure decoders and a model on this machine and these files."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.scoring.benchmark.decoders import DecoderSpeed
    from videopipe.scoring.benchmark.throughput import Throughput

SUMMARY = "measure decoders, and a model, on your machine and files, and recommend settings"
EXAMPLES = """  videopipe bench videos/
  videopipe bench videos/ --model runs/model-0123456789ab
  videopipe bench a.mp4 b.mkv --num-frames 32 --clip-seconds 4 --json speed.json

All decoders read the same clips in turn, and settings of the model take turns too. So the ratios of
one run can be compared even when other programs slow the machine down; times of two runs cannot.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add VIDEOS, --model and the size of the measurement."""
    add = parser.add_argument
    add("videos", metavar="VIDEOS", type=Path, nargs="+", help="video files, or folders of them")
    add("--model", metavar="MODEL", type=Path, help="checkpoint folder; measured as in predict")
    add("--files", type=int, default=8, metavar="N", help="files, evenly chosen (default: 8)")
    add("--num-frames", type=int, metavar="N", help="frames per clip (default: the model's, or 16)")
    add(
        "--clip-seconds", type=float, metavar="SECONDS",
        help="length of a clip (default: the model's, or 2)",
    )  # fmt: skip
    add("--rounds", type=int, default=3, metavar="N", help="clips per file; rounds (default: 3)")
    add("--device", default="auto", help="device of the model: auto, cpu, cuda, cuda:1, mps")
    add("--json", type=Path, metavar="FILE", help="write the numbers here too")


def main(args: argparse.Namespace) -> int:
    """Print both tables and what to set; 1 when no decoder reads every clip."""
    import json

    from pretrained_2d.atomic import write_text
    from videopipe.models import load_model
    from videopipe.scoring.benchmark.decoders import ClipSize, fastest, measure_decoders
    from videopipe.system.progress import counted

    network, card = (None, None) if args.model is None else load_model(args.model)
    own_frames = card.num_frames if card else None
    own_seconds = card.clip_seconds if card else None
    files = _files(args)
    size = ClipSize(
        num_frames=args.num_frames or own_frames or ClipSize.num_frames,
        clip_seconds=args.clip_seconds or own_seconds or ClipSize.clip_seconds,
        rounds=args.rounds,
    )
    frames = counted(size.num_frames, "frame")
    print(f"{counted(len(files), 'file')}, clips of {frames} over {size.clip_seconds:g} s\n")
    speeds = measure_decoders(files, size)
    for line in decoder_table(speeds):
        print(line, flush=True)
    best = fastest(speeds)
    found: list[Throughput] = []
    if network is not None and card is not None:
        from videopipe.scoring.benchmark.throughput import measure_throughput

        found = measure_throughput(network, card, files, device=args.device, rounds=args.rounds)
        print()
        for line in throughput_table(found):
            print(line, flush=True)
    print("\nWhat to set:")
    for line in advice(best, found):
        print(f"  {line}")
    if args.json is not None:
        write_text(args.json, json.dumps(as_json(speeds, found), indent=2) + "\n")
    return int(best is None)


def _files(args: argparse.Namespace) -> list[Path]:
    """At most `--files` of the videos, evenly chosen."""
    from videopipe.dataset.layouts.listing import videos_below
    from videopipe.errors import ConfigError, DataError

    for name in ("files", "rounds", "num_frames", "clip_seconds"):
        value = getattr(args, name)
        if value is not None and value <= 0:
            option = name.replace("_", "-")
            raise ConfigError([f"--{option} is {value}; expected more than 0"])
    if missing := [str(path) for path in args.videos if not path.exists()]:
        raise DataError(f"{', '.join(missing)}: no such file or folder")
    found = [f for path in args.videos for f in (videos_below(path) if path.is_dir() else [path])]
    if not found:
        raise DataError(f"{', '.join(map(str, args.videos))}: no videos found")
    step = max(1, len(found) // args.files)
    return found[::step][: args.files]


def decoder_table(speeds: "list[DecoderSpeed]") -> list[str]:
    """One line per decoder; times are those of the clips that all could read."""
    from videopipe.scoring.benchmark.decoders import REFERENCE, shared_clips

    clips = shared_clips(speeds)
    times = {s.backend: s.milliseconds(clips) for s in speeds if s.clip_seconds and clips}
    lines = [f"{'decoder':13} {'ms/clip':>8} {'vs av':>6} {'other frames':>13} {'failed':>7}"]
    for speed in speeds:
        if (mine := times.get(speed.backend)) is None:
            reason = speed.failures[0].partition(": ")[2] if speed.failures else "read nothing"
            lines.append(f"{speed.backend:13} does not work: {reason}")
            continue
        ratio = f"{mine / times[REFERENCE]:.2f}" if REFERENCE in times else "–"
        lines.append(
            f"{speed.backend:13} {mine:8.1f} {ratio:>6} {speed.differing_frames:13} "
            f"{len(speed.failures):7}"
        )
    return lines


def throughput_table(found: "list[Throughput]") -> list[str]:
    """One line per choice of processes and threads."""
    fastest = max(one.clips_per_second for one in found)
    lines = [f"{'model with':24} {'clips/s':>8} {'of best':>8}   slower part"]
    lines += [
        f"{one.words:24} {one.clips_per_second:8.1f} {one.clips_per_second / fastest:8.0%}   "
        f"{one.slower_part}"
        for one in found
    ]
    return lines


def advice(best: "DecoderSpeed | None", found: "list[Throughput]") -> list[str]:
    """Options of `predict`, and the same for a pipeline."""
    if best is None:
        lines = [
            "leave decoder: auto; no decoder read every clip. `videopipe check` names the files"
        ]
    else:
        lines = [f"--decoder {best.backend}    in a pipeline: scoring: {{decoder: {best.backend}}}"]
    if found:
        one = max(found, key=lambda one: one.clips_per_second)
        values = [f"workers: {one.execution.workers}"]
        if one.execution.threads is not None:
            values.append(f"threads: {one.execution.threads}")
        lines.append(f"{one.words}    in a pipeline: execution: {{{', '.join(values)}}}")
        if one.slower_part == "decoding":
            lines.append("decoding limits the speed: store the videos smaller, or use more cores")
        elif one.slower_part == "the model":
            lines.append("the model limits the speed: use a GPU, fewer clips (--clips) or frames")
    return lines


def as_json(speeds: "list[DecoderSpeed]", found: "list[Throughput]") -> dict[str, Any]:
    """All numbers."""
    from videopipe.scoring.benchmark.decoders import shared_clips

    clips = shared_clips(speeds)
    return {
        "decoders": {
            speed.backend: {
                "milliseconds": speed.milliseconds(clips) if speed.clip_seconds and clips else None,
                "differing_frames": speed.differing_frames,
                "failures": speed.failures,
            }
            for speed in speeds
        },
        "model": [
            {
                "workers": one.execution.workers,
                "threads": one.execution.threads,
                "clips_per_second": one.clips_per_second,
                "slower_part": one.slower_part,
            }
            for one in found
        ],
    }
