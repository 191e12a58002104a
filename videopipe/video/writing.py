"""Writing video files, for the `generate` stage, tests and benchmarks."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]  # (height, width, 3), RGB

# With macroblock-tree rate control (mbtree), x264 does not always encode the same frames equally.
X264_OPTIONS = {"preset": "veryfast", "x264-params": "mbtree=0"}


def write_video(
    path: Path,
    frames: Iterable[Frame],
    *,
    frame_rate: float,
    codec: str = "libx264",
    quality: int = 20,
    pixel_format: str = "yuv420p",
) -> None:
    """Encode RGB frames; the suffix of `path` selects the container (.mp4, .avi, .mkv, …).

    `quality` is x264's constant rate factor: 0 is lossless, 20 is good. The file is encoded with
    one thread and holds no date and no version, so the same frames give the same bytes.
    """
    options = X264_OPTIONS | {"crf": str(quality)} if codec == "libx264" else {}
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as container:
        rate = Fraction(frame_rate).limit_denominator(1001)
        stream = cast("av.VideoStream", container.add_stream(codec, rate=rate, options=options))
        stream.pix_fmt = pixel_format
        stream.thread_count = 1
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        for index, pixels in enumerate(frames):
            if index == 0:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
