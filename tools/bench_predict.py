"""`videopipe predict` compared with its parts: throughput, memory over time, start-up.

    python tools/bench_predict.py [--data FOLDER …] [--parts throughput loop start …]

throughput  clips per second of the whole, against decoding alone and the model alone, with the
            same processes and threads: one decoder and one model thread, for a light and a heavy
            network. The whole should reach 90 % of the slower part. The last column is processor
            time beyond that of the two parts; other load on the machine hardly changes it.
loop        the whole, against a plain loop over pytorchvideo's loader and the same network.
memory      of all processes, after a tenth of 5,000 small videos and at the end.
start       seconds from the command to the first finished row.
vectors     `embed` and the stage `features` beside `predict`, start and end included.
write       embeddings into a table that survives a kill, against plain pyarrow.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_vectors import vectors
from write_embeddings import write

SHARED = Path(os.environ.get("VIDEOPIPE_SHARED", Path(__file__).parents[2] / "shared"))
PARTS = ("throughput", "loop", "memory", "start", "vectors", "write")
LIGHT = {"depths": (1, 1, 1, 1), "widths": (8, 16, 32, 32)}
HEAVY = {"depths": (1, 1, 3, 1), "widths": (32, 64, 128, 256)}
FRAMES, SECONDS, PIXELS = 16, 2.0, 112
THROUGHPUT_VIDEOS = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", type=Path, default=[SHARED / "data" / "clips"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--videos", type=int, default=5000, help="of the memory part")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    args = parser.parse_args()
    from videopipe.prediction.discovery import VideoListing

    files = [Path(video.path) for video in VideoListing(args.data)]
    with tempfile.TemporaryDirectory() as folder:
        results = {part: BENCHES[part](files, args, Path(folder)) for part in args.parts}
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def save_network(folder: Path, widths: dict[str, Any]) -> Path:
    """An untrained network of the given size."""
    from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
    from pretrained_2d.checkpoints.folder import save_checkpoint
    from pretrained_2d.networks.backbones import build

    options = {"num_classes": 51, "image_size": PIXELS, "num_frames": FRAMES, **widths}
    card = ModelCard(
        architecture="convnext_tiny",
        options=options,
        ndim=3,
        labels=tuple(f"class {number}" for number in range(51)),
        preprocessing=Preprocessing(image_size=PIXELS, resize=128),
        num_frames=FRAMES,
        clip_seconds=SECONDS,
    )
    save_checkpoint(folder, build("convnext_tiny", ndim=3, **options), card)
    return folder


def throughput(files: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Clips per second: decoding alone, the model alone, both together."""
    from videopipe.models import load_model
    from videopipe.scoring.clip_classifier import ClipClassifier
    from videopipe.scoring.clip_models import ThreadedModel
    from videopipe.scoring.clips import ClipTask, DecodedClip, decode_clips
    from videopipe.scoring.engine import Engine, as_range
    from videopipe.scoring.settings import Execution, Scoring
    from videopipe.system.pool import Event, WorkerPool

    print("| network | decoding | model | together | of the slower part | more processor time |")
    print("|---|---|---|---|---|---|")
    found: dict[str, Any] = {}
    files = files * max(1, THROUGHPUT_VIDEOS // len(files))  # a small share for start and end
    execution = Execution(device="cpu", workers=1, threads=1)
    for name, widths in (("light", LIGHT), ("heavy", HEAVY)):
        network, card = load_model(save_network(folder / name, widths))
        with Engine(network, card, Scoring(), execution) as engine:
            tasks = [ClipTask(n, as_range(file), engine.plan) for n, file in enumerate(files)]

            def decode(pool: WorkerPool[ClipTask], tasks: list[ClipTask] = tasks) -> list[Any]:
                events = pool.run(tasks)
                payloads = (event.payload for event in events if isinstance(event, Event))
                return [clip.frames.clone() for clip in payloads if isinstance(clip, DecodedClip)]

            def compute(model: ThreadedModel, clips: list[Any]) -> None:
                for answer in [model.submit(clip) for clip in clips]:
                    answer.result()

            model = ThreadedModel(ClipClassifier(network, card, Scoring()), 1)
            speeds: dict[str, list[float]] = {"decode": [], "model": [], "together": []}
            spent = dict.fromkeys(speeds, 0.0)
            with WorkerPool(decode_clips, workers=1, timeout_seconds=60) as pool:
                clips = decode(pool)
                compute(model, clips[:4])
                list(engine.score(files[:1]))
                for _ in range(args.rounds):
                    for what, work in (
                        ("decode", lambda pool=pool: decode(pool)),
                        ("model", lambda model=model, clips=clips: compute(model, clips)),
                        ("together", lambda engine=engine: list(engine.score(files))),
                    ):
                        begun, used = time.perf_counter(), processor_seconds()
                        work()
                        speeds[what].append(len(clips) / (time.perf_counter() - begun))
                        spent[what] += processor_seconds() - used
            model.close()
        decoding, alone, together = (statistics.median(each) for each in speeds.values())
        share = together / min(decoding, alone)
        more = spent["together"] / (spent["decode"] + spent["model"]) - 1
        row = (f"{decoding:.1f}", f"{alone:.1f}", f"{together:.1f}", f"{share:.0%}", f"{more:+.1%}")
        print(f"| {name} | {' | '.join(row)} |", flush=True)
        found[name] = {"decoding": decoding, "model": alone, "together": together, "more": more}
    return found


def processor_seconds() -> float:
    """Processor time of this process and its descendants."""
    import psutil

    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def loop(files: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Videos per second, ours and a plain loop."""
    from videopipe.models import load_model
    from videopipe.scoring.engine import Engine
    from videopipe.scoring.settings import Execution, Scoring

    network, card = load_model(save_network(folder / "loop", LIGHT))
    ours, plain = [], []
    with Engine(network, card, Scoring(), Execution(device="cpu")) as engine:
        list(engine.score(files))
        for _ in range(args.rounds):
            begun = time.perf_counter()
            clips = sum(scores.num_clips for scores in engine.score(files))
            ours.append(clips / (time.perf_counter() - begun))
            begun = time.perf_counter()
            clips = sum(1 for _ in plain_loop(files, network, card))
            plain.append(clips / (time.perf_counter() - begun))
    quick, slow = statistics.median(ours), statistics.median(plain)
    print(f"plain loop over pytorchvideo's loader: {slow:.2f} clips/s; ")
    print(
        f"predict, {os.cpu_count()} decoders and threads: {quick:.2f} clips/s, {quick / slow:.1f}×"
    )
    return {"ours": quick, "plain": slow}


def plain_loop(files: list[Path], network: Any, card: Any) -> Iterator[Any]:
    """The simplest loop: the loader, a transform, the network."""
    import torch
    from pytorchvideo.data import LabeledVideoDataset, make_clip_sampler
    from torch.utils.data import SequentialSampler

    def transform(sample: dict[str, Any]) -> Any:
        video = sample["video"]  # (channels, time, height, width), float in [0, 255]
        indices = torch.linspace(0, video.shape[1] - 1, FRAMES).long()
        frames = video[:, indices].transpose(0, 1).to(torch.uint8)
        return card.preprocessing.resize_and_crop(frames).transpose(0, 1)

    dataset = LabeledVideoDataset(
        [(str(file), {"label": 0}) for file in files],
        make_clip_sampler("uniform", SECONDS),
        video_sampler=SequentialSampler,
        transform=transform,
        decode_audio=False,
        decoder="pyav",
    )
    with torch.inference_mode():
        for clip in dataset:
            yield network(card.preprocessing.normalize(clip[None]))


def small_videos(folder: Path, count: int) -> list[Path]:
    """Different videos of one second: a leak per file shows at any size."""
    import numpy as np

    from videopipe.video.writing import write_video

    paths = [folder / f"small{number}.mp4" for number in range(count)]
    for number, path in enumerate(paths):
        pictures = np.random.default_rng(number).integers(0, 256, (15, 6, 8, 3), dtype=np.uint8)
        write_video(path, pictures.repeat(8, 1).repeat(8, 2), frame_rate=15)
    return paths


def memory(_: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Bytes of this process and its decoders, early and late."""
    import psutil

    from videopipe.prediction.predictor import Predictor
    from videopipe.prediction.table.parts import PartWriter

    model = save_network(folder / "memory", LIGHT)
    videos, sources = folder / "videos", small_videos(folder, 20)
    videos.mkdir()
    for number in range(args.videos):
        source = sources[number % len(sources)]
        (videos / f"{number:05}{source.suffix}").symlink_to(source.resolve())
    own = psutil.Process()
    found: list[tuple[int, float]] = []
    begun = time.perf_counter()
    with Predictor(model, device="cpu", clips=1, scores=True) as predictor:
        schema = predictor.columns.schema()
        writer = PartWriter(folder, "memory", schema, ".parquet", rows_per_part=500)
        for number, row in enumerate(predictor.predict(videos), 1):
            writer.add(row)
            if number % max(1, args.videos // 50) == 0:
                family = [own, *own.children(recursive=True)]
                found.append((number, sum(one.memory_full_info().pss for one in family)))
    speed = args.videos / (time.perf_counter() - begun)
    early = [size for number, size in found if args.videos / 20 <= number <= args.videos / 5]
    late = [size for number, size in found if number >= args.videos * 0.85]
    before, after = statistics.median(early) / 2**20, statistics.median(late) / 2**20
    print(f"memory over {args.videos} videos ({speed:.1f}/s): {before:.0f} MiB early, ")
    print(f"{after:.0f} MiB late, {after / before - 1:+.1%}")
    return {"early_mebibytes": before, "late_mebibytes": after}


def start(files: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Seconds from the command to the first row in the journal."""
    model = save_network(folder / "start", LIGHT)
    seconds = []
    for number in range(args.rounds):
        out = folder / f"start{number}.csv"
        command = [sys.executable, "-m", "videopipe", "predict", str(model), *map(str, files)]
        begun = time.perf_counter()
        process = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.DEVNULL)
        parts = out.with_name(out.name + ".parts")
        while process.poll() is None and not any(p.stat().st_size for p in journals(parts)):
            time.sleep(0.005)
        seconds.append(time.perf_counter() - begun)
        process.kill()
        process.wait()
    every = ", ".join(f"{each:.1f}" for each in seconds)
    print(f"first row after {statistics.median(seconds):.1f} s ({every})")
    return {"seconds": seconds}


def journals(parts: Path) -> list[Path]:
    return [path for path in parts.glob("*.journal") if path.exists()]


BENCHES = {
    "throughput": throughput, "loop": loop, "memory": memory, "start": start, "write": write,
    "vectors": lambda files, args, folder: vectors(
        files, save_network(folder / "vectors", LIGHT), args.rounds, folder
    ),
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
