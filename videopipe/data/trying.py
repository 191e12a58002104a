"""Which decoders work on this machine: each reads a small video that is written for it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from videopipe.data.pool import Failed, WorkerPool
from videopipe.data.video import BACKENDS, open_video
from videopipe.data.writing import write_video

NUM_FRAMES, FRAME_RATE, TIMEOUT_SECONDS = 12, 12.0, 60.0


def try_backends() -> dict[str, str | None]:
    """For every backend: None if it reads the right frames, else what goes wrong.

    In a process of its own: a decoder built for other libraries may crash.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.mp4"
        greys = [20 + 15 * index for index in range(NUM_FRAMES)]
        frames = (np.full((64, 64, 3), grey, dtype=np.uint8) for grey in greys)
        write_video(path, frames, frame_rate=FRAME_RATE, quality=4)
        found: dict[str, str | None] = dict.fromkeys(BACKENDS)
        tasks = [(name, str(path)) for name in BACKENDS]
        with WorkerPool(_try, workers=1, timeout_seconds=TIMEOUT_SECONDS) as pool:
            for event in pool.run(tasks):
                if isinstance(event, Failed):
                    found[event.task[0]] = event.reason.splitlines()[0]
        return found


def _try(task: tuple[str, str]) -> Iterator[None]:
    backend, path = task
    with open_video(Path(path), backend=backend) as video:
        frames = video.frames_at([2 / FRAME_RATE, 9 / FRAME_RATE])
    seen = frames.float().mean((1, 2, 3)).tolist()
    wanted = [20 + 15 * index for index in (2, 9)]
    if any(abs(a - b) > 4 for a, b in zip(seen, wanted, strict=True)):
        raise ValueError(f"wrong frames: grey levels {seen}, written were {wanted}")
    yield None
