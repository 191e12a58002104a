"""A clip as a row of small frames, evenly spread over the video, in one embedded JPEG."""

import base64
import io
from pathlib import Path

from videopipe.errors import DecodeError
from videopipe.report.page import Strip

NUM_FRAMES = 8
FRAME_HEIGHT_PIXELS = 96


def film_strip(path: Path, caption: str) -> Strip | str:
    """The strip, or the reason why there is none."""
    from PIL import Image

    from videopipe.data.video import open_video

    try:
        with open_video(path, short_side=FRAME_HEIGHT_PIXELS) as video:
            step = video.duration_seconds / NUM_FRAMES
            frames = video.frames_at([(index + 0.5) * step for index in range(NUM_FRAMES)])
    except (DecodeError, OSError) as error:
        return str(error)
    pixels = frames.permute(2, 0, 3, 1).flatten(1, 2).contiguous()  # (height, time × width, 3)
    text = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(text, format="JPEG", quality=75)
    image = "data:image/jpeg;base64," + base64.b64encode(text.getvalue()).decode()
    return Strip(image, caption, alt=f"{NUM_FRAMES} frames of {path.name}, from start to end")
