"""The part `write` of bench_predict.py: embeddings into a table, against plain pyarrow."""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

COUNT, WIDTH = 50_000, 1024


def write(_: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Speed of our table as a share of plain pyarrow's; the median of the rounds.

    Ours appends rows to parts that survive a kill, and merges them in the order of the videos.
    Plain pyarrow makes one table in memory and writes it as Parquet with its defaults.
    """
    import numpy as np

    from videopipe.prediction.embedding.embedding_rows import EmbeddingColumns, EmbeddingShape

    shape = EmbeddingShape(width=WIDTH, steps=1, clip_seconds=1.0, dtype="float16", per="video")
    schema = EmbeddingColumns(shape).schema()
    array = np.random.default_rng(0).standard_normal((COUNT, WIDTH)).astype(np.float16)
    about = {"path": "a/video.mp4", "content_id": "0" * 24, "status": "ok", "clips": 1}
    rows = [about | {"id": f"{n:016x}", "embedding": array[n]} for n in range(COUNT)]
    shares = []
    for number in range(args.rounds):
        begun = time.perf_counter()
        _ours(rows, schema, folder / f"write{number}")
        ours = time.perf_counter() - begun
        begun = time.perf_counter()
        _plain(rows, array, schema, folder / f"plain{number}.parquet")
        shares.append((time.perf_counter() - begun) / ours)
    every = ", ".join(f"{share:.2f}" for share in shares)
    share = statistics.median(shares)
    print(f"{COUNT} embeddings of {WIDTH} numbers, float16: {share:.2f} of plain pyarrow's speed")
    print(f"({every})")
    return {"share_of_pyarrow": share}


def _ours(rows: list[Any], schema: Any, folder: Path) -> None:
    from videopipe.prediction.table.arrow_parts import ArrowPartWriter
    from videopipe.prediction.table.merge import merge_parts
    from videopipe.prediction.table.parts import list_parts

    folder.mkdir()
    writer = ArrowPartWriter(folder, "0", schema)
    for row in rows:
        writer.add(row)
    writer.finish_part()
    parts = list_parts(folder, ".parquet")
    merge_parts(parts, range(len(rows)), schema, folder / "all.parquet")


def _plain(rows: list[Any], array: Any, schema: Any, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), WIDTH)
    columns = [
        vectors if field.name == "embedding"
        else pa.array([row.get(field.name) for row in rows], field.type)
        for field in schema
    ]  # fmt: skip
    with path.open("wb") as file:
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
        file.flush()
        os.fsync(file.fileno())
