"""Test which backends work on this machine: each decodes a small video in a worker process."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from videopipe.system.pool import Event, Failed, WorkerPool
from videopipe.video.video import BACKENDS, open_video
from videopipe.video.writing import write_video

NUM_FRAMES, FRAME_RATE = 8, 8.0
TIMEOUT_SECONDS = 60.0


def check_backends() -> dict[str, str | None]:
    """For every backend None if it works, else the problem."""
    found: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "try.mp4")
        greys = [20 + 25 * number for number in range(NUM_FRAMES)]
        frames = (np.full((64, 64, 3), grey, np.uint8) for grey in greys)
        write_video(path, frames, frame_rate=FRAME_RATE)
        with WorkerPool(_try, workers=1, timeout_seconds=TIMEOUT_SECONDS) as pool:
            for event in pool.run([(name, path) for name in BACKENDS]):
                if isinstance(event, Event):
                    wrong = max(abs(a - b) for a, b in zip(event.payload, greys, strict=True))
                    found[event.task[0]] = None if wrong < 8 else "it returns wrong frames"
                elif isinstance(event, Failed):
                    found[event.task[0]] = event.reason
    return {name: found[name] for name in BACKENDS}


def _try(task: tuple[str, Path]) -> Iterator[list[float]]:
    name, path = task
    times = [(number + 0.5) / FRAME_RATE for number in range(NUM_FRAMES)]
    with open_video(path, name) as video:
        yield video.frames_at(times).float().mean(dim=(1, 2, 3)).tolist()
