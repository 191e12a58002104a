"""Decoding with pytorchvideo, the loader of the paper: its decord reader, clip by clip."""

from collections.abc import Sequence

import decord
import torch
from pytorchvideo.data.encoded_video_decord import EncodedVideoDecord
from torch import Tensor

from videopipe.data.backends.counted import CountedDecoder
from videopipe.errors import DecodeError


class PytorchvideoDecoder(CountedDecoder):
    """Asks for clips that hold exactly the wanted frames. Importing it switches decord to torch."""

    def _open(self) -> None:
        try:
            with self.path.open("rb") as file:
                self._video = EncodedVideoDecord(file, self.path.name, decode_audio=False)
            self._frame_rate = float(self._video._av_reader.get_avg_fps())
        except (decord.DECORDError, RuntimeError, OSError) as error:
            raise DecodeError(self.path, f"pytorchvideo cannot open it ({error!s:.200})") from None

    def _read(self, numbers: Sequence[int]) -> Tensor:
        first, last = numbers[0], numbers[-1]
        try:
            # It takes frames from ceil(rate × start) to ceil(rate × end), the last one excluded.
            clip = self._video.get_clip(
                max(0.0, (first - 0.5) / self._frame_rate), (last + 0.5) / self._frame_rate
            )
        except (decord.DECORDError, RuntimeError, IndexError, ValueError) as error:
            raise DecodeError(
                self.path, f"pytorchvideo cannot decode it ({error!s:.200})"
            ) from None
        frames = clip["video"]  # float (channels, time, height, width), 0 to 255
        if frames is None or frames.shape[1] == 0:
            raise DecodeError(self.path, f"pytorchvideo has no frame {first}; it counts fewer")
        chosen = [min(number - first, frames.shape[1] - 1) for number in numbers]
        return frames[:, chosen].permute(1, 0, 2, 3).to(torch.uint8)

    def close(self) -> None:
        del self._video
