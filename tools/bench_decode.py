"""Speed and correctness of each decoding backend on given files; recommends one.

    python tools/bench_decode.py FILE_OR_FOLDER … [--clip-seconds 2] [--num-frames 30] [--rounds 3]

Every row is one way to get clips of `--num-frames` frames at random places, opening the file each
time as training does: our backends, and the libraries used directly. All ways take the same places
in turn, and each place counts with the median of `--repeats`, so that the ratios of one run can be
compared also on a busy machine. Wrong frames are counted against a full decode in the decoder's
order. Each way runs in its own process, which gives its memory above that of the imports.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from decode_ways import WAYS, reader_of

LOADER_CLIPS, LOADER_BATCH = 160, 8
GREY_TOLERANCE = 3.0  # mean grey levels between two decoders' colour conversions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path, help="video files, or folders of them")
    parser.add_argument("--clip-seconds", type=float, default=2.0)
    parser.add_argument("--num-frames", type=int, default=30)
    parser.add_argument("--short-side", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=3, help="clips per file and way")
    parser.add_argument("--repeats", type=int, default=3, help="of every clip; the median counts")
    parser.add_argument("--ways", nargs="*", default=WAYS, help=f"of: {', '.join(WAYS)}")
    parser.add_argument("--no-workers", action="store_true", help="leave out the loader")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args)
    from videopipe.dataset.layouts.listing import videos_below

    files = [f for path in args.data for f in (videos_below(path) if path.is_dir() else [path])]
    clips = choose_clips(files, args)
    print(f"{len(files)} files, {len(clips)} clips of {args.num_frames} frames "
          f"over {args.clip_seconds:g} s, one process, one thread")  # fmt: skip
    rows = run_ways(args, clips)
    print_table(rows)
    recommend(rows)
    results = {
        "clips": len(clips),
        "milliseconds": {way: row["ms"] for way, row in rows.items() if "ms" in row},
        "failed": {way: row["failed"] for way, row in rows.items()},
        "wrong_frames": {way: sum(row["wrong"]) for way, row in rows.items()},
    }
    if not args.no_workers:
        results["loader_clips_per_second"] = compare_workers(files, args)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def choose_clips(files: list[Path], args: argparse.Namespace) -> list[tuple[str, float]]:
    """(file, start) of every clip, the same for all ways."""
    from videopipe.dataset.clips.sampling import random_clip
    from videopipe.errors import DecodeError
    from videopipe.video.video import open_video

    generator = random.Random(0)
    clips = []
    for file in files:
        try:
            with open_video(file, "av") as video:
                duration = video.duration_seconds
        except DecodeError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        for _ in range(args.rounds):
            clip = random_clip(duration, args.clip_seconds, generator.random())
            clips.append((str(file), clip.start_seconds))
    return clips


def run_ways(args: argparse.Namespace, clips: list[tuple[str, float]]) -> dict[str, dict]:
    """One process per way; they take turns clip by clip, so that a busy machine slows all alike."""
    processes = {}
    for way in args.ways:
        command = [sys.executable, __file__, "-", "--worker", way, str(args.short_side or 0),
                   "--clip-seconds", str(args.clip_seconds), "--num-frames", str(args.num_frames),
                   "--repeats", str(args.repeats)]  # fmt: skip
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        processes[way] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment,
        )  # fmt: skip
    rows = {way: {"seconds": [], "wrong": [], "failed": 0, "memory": 0.0} for way in args.ways}
    warm_up = list(dict.fromkeys(file for file, _ in clips))[:2]
    for number, (file, start) in enumerate([(f, 0.0) for f in warm_up] + clips):
        for way, process in processes.items():
            answer = ask(process, file, start)
            if number < len(warm_up):
                continue  # imports and disk
            row = rows[way]
            if "seconds" in answer:
                row["seconds"].append((file, start, answer["seconds"]))
                row["wrong"].append(answer["wrong"])
                row["memory"] = max(row["memory"], answer["memory"])
            else:
                row["failed"] += 1
    for process in processes.values():
        process.kill()
    return rows


def ask(process: subprocess.Popen, file: str, start: float) -> dict:
    """The answer of a way's process; a process that has died fails every request."""
    try:
        print(json.dumps([file, start]), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline() or "{}")
    except (BrokenPipeError, json.JSONDecodeError):
        return {}


def serve(args: argparse.Namespace) -> int:
    """The process of one way: a line with a clip in, a line with what it took out."""
    import torch

    from videopipe.dataset.clips.sampling import Clip, frame_times

    torch.set_num_threads(1)
    way, short_side = args.worker[0], int(args.worker[1]) or None
    read = reader_of(way, short_side)
    at_start = None
    for line in sys.stdin:
        file, start = json.loads(line)
        times = frame_times(Clip(start, start + args.clip_seconds), args.num_frames)
        try:
            seconds = []
            for _ in range(args.repeats):
                began = time.perf_counter()
                frames = read(file, times)
                seconds.append(time.perf_counter() - began)
            at_start = at_start or resident_megabytes()  # the first clip brings the imports
            answer = {
                "seconds": statistics.median(seconds),
                "memory": resident_megabytes() - at_start,
            }
            answer["wrong"] = wrong_frames(file, times, frames)
        except Exception as error:  # noqa: BLE001 - any exception is a failure of this way
            answer = {"error": repr(error)[:200]}
        print(json.dumps(answer), flush=True)
    return 0


def resident_megabytes() -> float:
    import psutil

    return psutil.Process().memory_info().rss / 2**20


def wrong_frames(file: str, times: list[float], frames) -> int:
    """How many frames are not the ones that a full decode shows at these times."""
    import torch

    truth = full_decode(file)
    small = torch.nn.functional.interpolate(frames.float(), (24, 32), mode="area")
    wrong = 0
    for time_seconds, frame in zip(times, small, strict=True):
        shown = [picture for start, picture in truth if start <= time_seconds + 6e-4]
        wrong += bool((frame - (shown or [truth[0][1]])[-1]).abs().mean() > GREY_TOLERANCE)
    return wrong


def full_decode(file: str, kept: dict = {}):  # noqa: B006 - kept from call to call on purpose
    """Every frame, small, in the decoder's order, evenly spaced where the times are not."""
    if file not in kept:
        import av
        import torch

        from videopipe.video.backends.pyav_stream import READING

        kept.clear()
        with av.open(file, **READING) as container:
            stream = container.streams.best("video")
            stream.thread_count = 1
            pictures = []
            for frame in container.decode(stream):
                pixels = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
                pixels = torch.rot90(pixels, round((frame.rotation or 0) / 90) % 4, (1, 2))
                size = (24, 32)
                small = torch.nn.functional.interpolate(pixels[None].float(), size, mode="area")[0]
                pictures.append((frame.pts, small))
            rate, tick = float(stream.average_rate), float(stream.time_base)
        stamps = [pts for pts, _ in pictures]
        usable = all(s is not None for s in stamps) and stamps == sorted(set(stamps))
        even = container.format.name == "avi" or not usable
        kept[file] = [
            (number / rate if even else (pts - stamps[0]) * tick, small)
            for number, (pts, small) in enumerate(pictures)
        ]
    return kept[file]


def print_table(rows: dict[str, dict]) -> None:
    """Times are compared on the clips that all working ways could decode."""
    working = {way: {r[:2]: r[2] for r in row["seconds"]} for way, row in rows.items()}
    print(f"{'way':22} {'clips/s':>8} {'ms/clip':>8} {'vs av':>6} {'wrong frames':>13} "
          f"{'failed':>7} {'more MB':>8}")  # fmt: skip
    for way, row in rows.items():
        if not row["seconds"]:
            print(f"{way:22} {'-':>8} {'-':>8} {'-':>6} {'-':>13} {row['failed']:>7}")
            continue
        shared = [key for key in working[way] if key in working.get("av", working[way])]
        mine = statistics.fmean(working[way][key] for key in shared)
        reference = working.get("av", working[way])
        ratio = mine / statistics.fmean(reference[key] for key in shared)
        row["ms"] = mine * 1e3
        wrong = sum(row["wrong"])
        print(f"{way:22} {1 / mine:8.1f} {mine * 1e3:8.2f} {ratio:6.2f} {wrong:13} "
              f"{row['failed']:>7} {row['memory']:8.0f}")  # fmt: skip


def recommend(rows: dict[str, dict]) -> None:
    """The fastest of our backends without a failure or a wrong frame."""
    from videopipe.video.video import BACKENDS

    right = [
        way for way, row in rows.items()
        if way in BACKENDS and row["seconds"] and not row["failed"] and not sum(row["wrong"])
    ]  # fmt: skip
    if right:
        best = min(right, key=lambda way: rows[way]["ms"])
        print(f"recommended: backend {best}, workers {os.cpu_count()} (one per core)")
    else:
        print("no backend read every file correctly; `auto` tries them in turn")


def compare_workers(files: list[Path], args: argparse.Namespace) -> dict[int, float]:
    """Clips per second of the training loader, in batches, with one and with two workers.

    They take turns, and the median of each counts.
    """
    from torch.utils.data import DataLoader

    from pretrained_2d.training.objective import collate
    from videopipe.dataset.clips.clip_transform import ClipTransform
    from videopipe.dataset.clips.training_clips import ClipDataset
    from videopipe.dataset.manifest import VideoRecord

    records = [VideoRecord(path=str(file), label=0, status="ok") for file in files]
    records = records * max(1, LOADER_CLIPS // len(records))
    data = ClipDataset(
        records, num_frames=args.num_frames, clip_seconds=args.clip_seconds,
        short_side=args.short_side, transform=ClipTransform(),
    )  # fmt: skip
    turns: dict[int, list[float]] = {1: [], 2: []}
    for workers in [*turns] * args.repeats:
        loader = DataLoader(
            data, batch_size=LOADER_BATCH, num_workers=workers, collate_fn=collate,
            multiprocessing_context="forkserver",
        )  # fmt: skip
        times = [time.perf_counter() for _ in loader]
        skipped = 2  # batches, while the workers start
        seconds = times[-1] - times[skipped]
        clips = LOADER_BATCH * (len(times) - 1 - skipped)
        turns[workers].append(clips / seconds)
    rates = {workers: statistics.median(each) for workers, each in turns.items()}
    print(f"training loader, batches of {LOADER_BATCH}: {rates[1]:.1f} clips/s with one worker, "
          f"{rates[2]:.1f} with two ({rates[2] / rates[1]:.2f} times)")  # fmt: skip
    return rates


if __name__ == "__main__":
    sys.exit(main())
