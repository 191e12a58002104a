"""`metrics.jsonl`: one JSON record per line, appended; resuming never repeats a record."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class MetricsLog:
    """Appends records; a resumed run first cuts off what was written after its state."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=True) + "\n")

    def size(self) -> int:
        """Bytes so far, safely on disk: part of the training state."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        return self.path.stat().st_size

    def cut(self, size: int) -> None:
        """Truncate the log to its first `size` bytes."""
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole records; a last line that a kill cut short is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
