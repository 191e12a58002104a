"""Writing video files: what the generator, the tests and the benchmarks make their data with."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]  # (height, width, 3), RGB

# With its tree of macroblocks (mbtree), x264 now and then encodes the same small frames otherwise.
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
    """Encode RGB frames into the container that the ending of `path` names (.mp4, .avi, .mkv, …).

    `quality` is x264's constant rate factor: 0 is lossless, 20 is good. One thread, no date and no
    version in the file: the same frames give the same bytes.
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
