"""A clip as a row of small frames, evenly spread over the video, in one embedded JPEG."""

import base64
import io
from pathlib import Path

from videopipe.errors import DecodeError
from videopipe.report.page import Strip

NUM_FRAMES = 8
FRAME_HEIGHT_PIXELS = 96
GAP_PIXELS = 4


def film_strip(path: Path, caption: str, num_clips: int = 1) -> Strip | str:
    """The strip, or the reason why there is none. `num_clips` clips of it were looked at."""
    import torch
    from PIL import Image

    from videopipe.data.video import open_video

    try:
        with open_video(path, short_side=FRAME_HEIGHT_PIXELS) as video:
            seconds = video.duration_seconds
            step = seconds / NUM_FRAMES
            frames = video.frames_at([(index + 0.5) * step for index in range(NUM_FRAMES)])
    except (DecodeError, OSError) as error:
        return str(error)
    time, channels, height, width = frames.shape
    strip = torch.full((height, time, width + GAP_PIXELS, channels), 255, dtype=torch.uint8)
    strip[:, :, :width] = frames.permute(2, 0, 3, 1)
    pixels = strip.flatten(1, 2)[:, :-GAP_PIXELS]  # (height, time × width and gaps, 3)
    text = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(text, format="JPEG", quality=75)
    image = "data:image/jpeg;base64," + base64.b64encode(text.getvalue()).decode()
    looked_at = "one clip" if num_clips == 1 else f"{num_clips} clips"
    return Strip(
        image,
        f"{caption} ({seconds:.1f} s, seen as {looked_at})",
        alt=f"{NUM_FRAMES} frames of {path.name}, from start to end",
    )
