"""Decoding with pytorchvideo, the loader of the paper, through its decord reader."""

from collections.abc import Sequence

import decord
import torch
from pytorchvideo.data.encoded_video_decord import EncodedVideoDecord
from torch import Tensor

from videopipe.errors import DecodeError
from videopipe.video.backends.frame_number import FrameNumberDecoder


class PytorchvideoDecoder(FrameNumberDecoder):
    """Reads clips with exactly the wanted frames. Importing it switches decord to torch tensors."""

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
            # The clip has the frames from ceil(rate × start) to ceil(rate × end) − 1.
            clip = self._video.get_clip(
                max(0.0, (first - 0.5) / self._frame_rate), (last + 0.5) / self._frame_rate
            )
        except (decord.DECORDError, RuntimeError, IndexError, ValueError) as error:
            raise DecodeError(
                self.path, f"pytorchvideo cannot decode it ({error!s:.200})"
            ) from None
        frames = clip["video"]  # float (channels, time, height, width), 0 to 255
        if frames is None or frames.shape[1] == 0:
            raise DecodeError(self.path, f"pytorchvideo finds no frame {first}")
        chosen = [min(number - first, frames.shape[1] - 1) for number in numbers]
        return frames[:, chosen].permute(1, 0, 2, 3).to(torch.uint8)

    def close(self) -> None:
        del self._video
