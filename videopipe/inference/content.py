"""A short name for the bytes of a file, the same for every copy of it."""

import hashlib
import os
from pathlib import Path

PIECE_BYTES = 256 * 1024


def content_id(path: Path) -> str:
    """Sixteen hex digits from the size and three pieces: beginning, middle and end.

    Reading all of a long film only to name it would cost as much as decoding it.
    """
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(size.to_bytes(8, "big"))
        for start in sorted({0, max(0, size // 2 - PIECE_BYTES // 2), max(0, size - PIECE_BYTES)}):
            file.seek(start)
            digest.update(file.read(PIECE_BYTES))
    return digest.hexdigest()
