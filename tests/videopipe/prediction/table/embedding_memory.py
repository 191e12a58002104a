"""Write and merge embeddings in a process of its own; print the peak of its private memory."""

import sys
import threading
from pathlib import Path

import numpy as np

from videopipe.prediction.embedding.embedding_rows import EmbeddingColumns, EmbeddingShape
from videopipe.prediction.table.arrow_parts import ArrowPartWriter
from videopipe.prediction.table.merge import merge_parts
from videopipe.prediction.table.parts import list_parts

WIDTH = 1024


def private_bytes() -> int:
    """Without the pages of mapped files, which the system drops when it needs memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def main(folder: Path, count: int) -> None:
    peak, done = private_bytes(), threading.Event()
    before = peak

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, private_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    shape = EmbeddingShape(width=WIDTH, steps=1, clip_seconds=1.0, dtype="float16", per="video")
    schema = EmbeddingColumns(shape).schema()
    writer = ArrowPartWriter(folder, "0", schema, bytes_per_part=32 * 2**20)
    about = {"path": "a.mp4", "content_id": "0" * 24, "status": "ok", "clips": 1}
    for number in range(count):
        vector = np.full(WIDTH, number % 1000, np.float16)
        writer.add(about | {"id": f"{number:016x}", "embedding": vector})
    writer.finish_part()
    # In the opposite order, which is the worst for a merge that reads group by group.
    order = range(count - 1, -1, -1)
    merge_parts(list_parts(folder, ".parquet"), order, schema, folder / "all.parquet")
    done.set()
    watcher.join()
    print(peak - before)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
