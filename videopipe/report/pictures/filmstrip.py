"""Videos as rows of small frames, evenly spread over each, in one embedded JPEG."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from videopipe.errors import DecodeError
from videopipe.report.page import Strip
from videopipe.system.pool import Event, Failed, WorkerPool

NUM_FRAMES = 8
FRAME_HEIGHT_PIXELS = 96
GAP_PIXELS = 4
TIMEOUT_SECONDS = 30.0
MEMORY_LIMIT_BYTES = 4 * 2**30


@dataclass(frozen=True)
class StripRequest:
    """Which video, and what is written below its strip."""

    path: Path | str  # a file, a folder of frames, a URL or a member of a shard
    caption: str
    num_clips: int = 1  # that were scored


Drawing = Callable[[StripRequest], Iterator[Strip | str]]


def film_strips(
    requests: Sequence[StripRequest],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    draw: Drawing | None = None,
) -> list[Strip | str]:
    """The strip of each video, or the reason why it has none.

    Decoding runs in a process that is killed when it takes too long. `draw` replaces `draw_strip`.
    """
    found: dict[StripRequest, Strip | str] = {}
    if not requests:
        return []
    with WorkerPool(
        draw or draw_strip,
        workers=1,
        timeout_seconds=timeout_seconds,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
    ) as pool:
        for event in pool.run(dict.fromkeys(requests)):
            if isinstance(event, Event):
                found[event.task] = event.payload
            elif isinstance(event, Failed):
                found[event.task] = event.reason
    return [found[request] for request in requests]


def draw_strip(request: StripRequest) -> Iterator[Strip | str]:
    """Decode a video and yield its strip, or the reason why there is none."""
    import torch
    from PIL import Image

    from videopipe.video.sources.local_copy import local_copy
    from videopipe.video.video import open_video

    try:
        with (
            local_copy(str(request.path)) as file,
            # Frames of a folder are spread over it in the same way at any rate.
            open_video(file, short_side=FRAME_HEIGHT_PIXELS, frame_rate=1.0) as video,
        ):
            seconds = video.duration_seconds
            length = f"{seconds:.0f} frames" if file.is_dir() else f"{seconds:.1f} s"
            step = seconds / NUM_FRAMES
            frames = video.frames_at([(index + 0.5) * step for index in range(NUM_FRAMES)])
    except (DecodeError, OSError) as error:
        yield error.reason if isinstance(error, DecodeError) else str(error)
        return
    time, channels, height, width = frames.shape
    strip = torch.full((height, time, width + GAP_PIXELS, channels), 255, dtype=torch.uint8)
    strip[:, :, :width] = frames.permute(2, 0, 3, 1)
    pixels = strip.flatten(1, 2)[:, :-GAP_PIXELS]  # (height, time × width and gaps, 3)
    text = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(text, format="JPEG", quality=75)
    image = "data:image/jpeg;base64," + base64.b64encode(text.getvalue()).decode()
    clips = "one clip" if request.num_clips == 1 else f"{request.num_clips} clips"
    yield Strip(
        image,
        f"{request.caption} ({length}, {clips} scored)",
        alt=f"{NUM_FRAMES} frames of {Path(request.path).name}, from start to end",
        width=pixels.shape[1],
        height=pixels.shape[0],
    )
