"""A short name for the bytes of a file, the same for every copy of it."""

import hashlib
import os
from pathlib import Path

PIECE_BYTES = 1024 * 1024


def content_id(path: Path) -> str:
    """Hex digits from the size and three pieces, beginning, middle and end: all of a short clip.

    Reading all of a long film only to find its copies would cost as much as decoding it.
    """
    digest = hashlib.blake2b(digest_size=12)
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        digest.update(size_bytes.to_bytes(8, "big"))
        last = max(0, size_bytes - PIECE_BYTES)
        for start in sorted({0, last // 2, last}):
            file.seek(start)
            digest.update(file.read(PIECE_BYTES))
    return digest.hexdigest()
