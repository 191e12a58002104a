"""Videos of a list of any length: a queue that is kept on disk, and a compact set of ids."""

import pickle
from array import array
from collections import deque
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition
from typing import IO, Any

ITEMS_PER_BLOCK = 1000
SMALLEST_TABLE = 2**10  # slots; a power of two


class DiskQueue:
    """A first-in, first-out queue between two threads, whose middle is kept on disk.

    The file is in `folder` and has no name, so it is gone when the process ends or is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = Condition()
        self._first = deque[Any]()
        self._blocks = deque[tuple[int, int]]()  # (position, length) in the file
        self._last: list[Any] = []
        self._file: IO[bytes] | None = None

    def put(self, item: Any) -> None:
        """Append an item. Raises OSError when the disk fails."""
        with self._changed:
            self._last.append(item)
            self._changed.notify()
            if len(self._last) >= ITEMS_PER_BLOCK:
                self._write_block()

    def put_last(self, item: Any) -> None:
        """Append the last item, without writing to disk."""
        with self._changed:
            self._last.append(item)
            self._changed.notify()

    def get(self) -> Any:
        """Remove and return the first item; wait for one if the queue is empty."""
        with self._changed:
            while self.empty():
                self._changed.wait()
            if not self._first and self._blocks:
                self._read_block()
            elif not self._first:
                self._first.extend(self._last)
                self._last = []
            return self._first.popleft()

    def empty(self) -> bool:
        """Whether there is nothing to get at this moment."""
        return not (self._first or self._blocks or self._last)

    def _write_block(self) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - as long as the queue
        position = sum(self._blocks[-1]) if self._blocks else 0
        content = pickle.dumps(self._last)
        self._file.seek(position)
        self._file.write(content)
        self._blocks.append((position, len(content)))
        self._last = []

    def _read_block(self) -> None:
        assert self._file is not None
        position, length = self._blocks.popleft()
        self._file.seek(position)
        self._first.extend(pickle.loads(self._file.read(length)))


class IdSet:
    """Numbers below 2**64 that are evenly distributed, such as hashes: 12 to 24 bytes each."""

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * SMALLEST_TABLE))  # 0: free
        self._count = 0

    def add(self, number: int) -> bool:
        """Whether the number is new."""
        if 3 * self._count >= 2 * len(self._slots):
            old = self._slots
            self._slots = array("Q", bytes(16 * len(old)))
            for each in old:
                if each:
                    self._insert(each)
        is_new = self._insert(number or 1)
        self._count += is_new
        return is_new

    def __len__(self) -> int:
        return self._count

    def _insert(self, number: int) -> bool:
        slots, mask = self._slots, len(self._slots) - 1
        place = number & mask
        while slots[place] != number:
            if not slots[place]:
                slots[place] = number
                return True
            place = (place + 1) & mask
        return False
