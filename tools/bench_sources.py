"""What each kind of source costs beside local files: processor time and throughput of `predict`.

    python tools/bench_sources.py [--data FOLDER] [--files 24] [--rounds 3] [--json FILE]

The same videos are read as files, over HTTP and S3 (servers on loopback, in processes of their
own), as members of a tar shard, as bytes in a column of Arrow and Parquet files, and as folders of
frames. A light network scores one clip of each. The sources take turns in every round. Processor
time is that of this process and its decoder; it depends less on other load than throughput does.
Frames are JPEG files of all frames, at the size of the video.
"""

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench_predict import LIGHT, SHARED, processor_seconds, save_network

ROOT = Path(__file__).resolve().parents[1]
BUCKET = "films"
FRAME_RATE = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "hmdb51" / "videos")
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    args = parser.parse_args()
    from videopipe.prediction.discovery import VideoListing

    files = [Path(video.path) for video in VideoListing([args.data])]
    files = files[:: max(1, len(files) // args.files)][: args.files]
    size = sum(file.stat().st_size for file in files) / len(files) / 2**20
    print(f"{len(files)} videos of {size:.2f} MiB, one clip of each, {args.rounds} rounds")
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        os.environ["VIDEOPIPE_SCRATCH"] = str(folder / "scratch")
        sources = local_sources(files, folder)
        for serve in (serve_http, serve_s3):
            sources |= servers.enter_context(running(serve, files))
        found = measure(save_network(folder / "light", LIGHT), sources, args.rounds)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def local_sources(files: list[Path], folder: Path) -> dict[str, list[str]]:
    """The same videos in a shard, in tables and as frames."""
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq
    from torchvision.transforms.functional import to_pil_image

    from videopipe.video.video import open_video

    with tarfile.open(folder / "films.tar", "w") as tar:
        for number, file in enumerate(files):
            tar.add(file, f"{number}{file.suffix}")
    table = pa.table({"bytes": [file.read_bytes() for file in files]})
    pq.write_table(table, folder / "films.parquet", row_group_size=100)
    feather.write_feather(table, str(folder / "films.arrow"), compression="uncompressed")
    for number, file in enumerate(files):
        frames = folder / "frames" / f"{number}"
        frames.mkdir(parents=True)
        with open_video(file) as video:
            count = int(video.duration_seconds * FRAME_RATE)
            pictures = video.frames_at([(n + 0.5) / FRAME_RATE for n in range(count)])
        for n, picture in enumerate(pictures):
            to_pil_image(picture).save(frames / f"frames_{n:06}.jpg", quality=90)
    return {
        "files": [str(file) for file in files],
        "tar shard": [str(folder / "films.tar")],
        "Arrow column": [str(folder / "films.arrow")],
        "Parquet column": [str(folder / "films.parquet")],
        "frame folders": [str(folder / "frames")],
    }


def serve_http(files: list[Path], tell: Callable[[Any], None]) -> None:
    """A server with ranges; tells the URLs."""
    sys.path.insert(0, str(ROOT))
    from tests.servers import web_site

    with web_site() as site:
        site.files = {f"{n}{file.suffix}": file.read_bytes() for n, file in enumerate(files)}
        tell(({"HTTP": [f"{site.url}/{name}" for name in site.files]}, {}))
        time.sleep(10**6)


def serve_s3(files: list[Path], tell: Callable[[Any], None]) -> None:
    """A bucket of moto; tells the URLs and the variables that lead to it."""
    sys.path.insert(0, str(ROOT))
    from tests.servers import bucket

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    objects = {f"{n}{file.suffix}": file for n, file in enumerate(files)}
    with bucket(BUCKET, objects) as (variables, _):
        tell(({"S3": [f"s3://{BUCKET}/{name}" for name in objects]}, variables))
        time.sleep(10**6)


@contextmanager
def running(
    serve: Callable[[list[Path], Callable[[Any], None]], None], files: list[Path]
) -> Iterator[dict[str, list[str]]]:
    """A server in a process of its own, whose processor time is not counted."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(files, there.send), daemon=True)
    process.start()
    try:
        sources, variables = here.recv()
        os.environ.update(variables)
        yield sources
    finally:
        process.terminate()


def measure(model: Path, sources: dict[str, list[str]], rounds: int) -> dict[str, Any]:
    """Milliseconds of processor time per video, and ratios of both to files; medians of rounds."""
    import psutil

    from videopipe.prediction.predictor import Predictor

    servers = list(psutil.Process().children(recursive=True))

    def spent() -> float:
        alive = [one.cpu_times() for one in servers if one.is_running()]
        return processor_seconds() - sum(one.user + one.system for one in alive)

    used: dict[str, list[float]] = {name: [] for name in sources}
    took: dict[str, list[float]] = {name: [] for name in sources}
    with Predictor(
        model, device="cpu", clips=1, workers=1, threads=1, frame_rate=FRAME_RATE
    ) as predictor:
        for number in range(rounds + 1):  # the first one warms up
            for name, paths in sources.items():
                begun, before = time.perf_counter(), spent()
                statuses = [row["status"] for row in predictor.predict(paths)]
                if set(statuses) != {"ok"}:
                    raise SystemExit(f"{name}: {statuses}")
                if number:
                    took[name].append((time.perf_counter() - begun) / len(statuses))
                    used[name].append((spent() - before) / len(statuses))
    found: dict[str, Any] = {}
    print("| source | processor time per video | of files | throughput, of files |")
    print("|---|---|---|---|")
    for name in sources:
        milliseconds = 1000 * statistics.median(used[name])
        cost = statistics.median(a / b for a, b in zip(used[name], used["files"], strict=True))
        speed = statistics.median(b / a for a, b in zip(took[name], took["files"], strict=True))
        print(f"| {name} | {milliseconds:.1f} ms | {cost:.2f} | {speed:.2f} |", flush=True)
        found[name] = {"milliseconds": milliseconds, "processor": cost, "throughput": speed}
    return found


if __name__ == "__main__":
    sys.exit(main())
