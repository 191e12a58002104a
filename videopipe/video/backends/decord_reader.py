"""Decoding with decord. It is no longer maintained; many published results were made with it."""

from collections.abc import Sequence

import decord
import torch
from torch import Tensor

from videopipe.errors import DecodeError
from videopipe.video.backends.frame_number import FrameNumberDecoder

decord.logging.set_level(decord.logging.QUIET)


class DecordDecoder(FrameNumberDecoder):
    """decord can hang on broken files with the interpreter lock held: use it in a pool."""

    def _open(self) -> None:
        try:
            self._reader = decord.VideoReader(str(self.path), num_threads=1)
        except (decord.DECORDError, RuntimeError, UnicodeEncodeError) as error:
            raise DecodeError(self.path, f"decord cannot open it ({_words(error)})") from None

    def _read(self, numbers: Sequence[int]) -> Tensor:
        highest = len(self._reader) - 1
        try:
            batch = self._reader.get_batch([min(number, highest) for number in numbers])
        except (decord.DECORDError, RuntimeError, IndexError) as error:
            raise DecodeError(self.path, f"decord cannot decode it ({_words(error)})") from None
        # pytorchvideo switches decord's global bridge to torch tensors.
        pixels = batch if isinstance(batch, Tensor) else torch.from_numpy(batch.asnumpy())
        return pixels.permute(0, 3, 1, 2)

    def close(self) -> None:
        del self._reader


def _words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][-200:] if lines else type(error).__name__
