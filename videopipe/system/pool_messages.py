"""Messages between a pool and its workers; tensors travel in shared memory.

A clip of 30 frames has 7 MB, too much for a pipe. Arrays and tensors are written to anonymous
memory files, and the receiver maps them without a copy. Such a file has no name, so a killed
process leaves nothing behind, and it does not use /dev/shm, which is small in containers.
"""

import io
import mmap
import os
import pickle
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import torch
from torch import Tensor

ALIGNMENT_BYTES = 64
SMALL_BYTES = 16_384  # below this a pipe is faster than a memory file


def send(connection: Connection, message: Any) -> None:
    """Send any picklable message; tensors and arrays go through shared memory."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _TensorPickler(stream, protocol=5, buffer_callback=buffers.append).dump(message)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    if sum(sizes) <= SMALL_BYTES or not hasattr(os, "memfd_create"):
        inline = [bytes(view) for view in views]
        connection.send_bytes(pickle.dumps((stream.getvalue(), sizes, inline), protocol=5))
        return
    handle = os.memfd_create("videopipe")
    try:
        _write_aligned(handle, views)  # first, so that no time passes between the two parts
        connection.send_bytes(pickle.dumps((stream.getvalue(), sizes, None), protocol=5))
        send_handle(connection, handle, None)
    finally:
        os.close(handle)


def receive(connection: Connection) -> Any:
    """Wait for the next message.

    Raises EOFError or OSError when the other side is gone, and BlockingIOError when the connection
    has a time limit and the message stops in the middle.
    """
    content, sizes, inline = pickle.loads(connection.recv_bytes())
    if inline is not None:
        return pickle.loads(content, buffers=[bytearray(part) for part in inline])
    handle = recv_handle(connection)
    try:
        memory = memoryview(mmap.mmap(handle, sum(_padded(size) for size in sizes)))
    finally:
        os.close(handle)
    parts, offset = [], 0
    for size in sizes:
        parts.append(memory[offset : offset + size])
        offset += _padded(size)
    return pickle.loads(content, buffers=parts)


class _TensorPickler(pickle.Pickler):
    """Pickles a CPU tensor as a buffer, which protocol 5 keeps out of the stream."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        value = value.detach().cpu()
        # Frames are a channels-last view; sending them in memory order avoids a copy.
        order = sorted(range(value.ndim), key=value.stride, reverse=True)
        dense = value.permute(order).contiguous()
        content = dense.view(-1).view(torch.uint8).numpy() if dense.numel() else b""
        return _rebuild, (pickle.PickleBuffer(content), dense.dtype, tuple(dense.shape), order)


def _rebuild(
    content: Any, dtype: torch.dtype, shape: Sequence[int], order: Sequence[int]
) -> Tensor:
    if not memoryview(content).nbytes:
        dense = torch.empty(tuple(shape), dtype=dtype)
    else:
        dense = torch.frombuffer(content, dtype=dtype).view(tuple(shape))
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return dense.permute(inverse)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _write_aligned(handle: int, views: Sequence[memoryview]) -> None:
    for view in views:
        for part in (view, memoryview(bytes(_padded(view.nbytes) - view.nbytes))):
            written = 0
            while written < part.nbytes:
                written += os.write(handle, part[written:])
