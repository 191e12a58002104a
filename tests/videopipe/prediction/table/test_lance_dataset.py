"""Tables as Lance datasets: written, read again, killed and resumed."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.processes import kill, start_paused
from videopipe.cli import main
from videopipe.errors import VideopipeError
from videopipe.prediction.embedding.embedding_rows import EmbeddingColumns, EmbeddingShape
from videopipe.prediction.table.arrow_parts import ArrowPartWriter
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.merge import merge_parts
from videopipe.prediction.table.parts import list_parts, read_group, scan_part

NEEDS_LANCE = "pylance is not installed; to run this test: pip install 'videopipe[lance]'"
QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]


def test_rows_are_in_order_and_read_again(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason=NEEDS_LANCE)
    shape = EmbeddingShape(width=8, steps=1, clip_seconds=1.0, dtype="float16", per="video")
    schema = EmbeddingColumns(shape).schema()
    writer = ArrowPartWriter(tmp_path, "0", schema)
    for number in range(600):
        vector = None if number == 7 else np.full(8, number, np.float16)
        status = "error" if vector is None else "ok"
        writer.add({"id": f"{number:016x}", "path": "a", "status": status, "embedding": vector})
    writer.finish_part()
    out = tmp_path / "all.lance"
    for _ in range(2):  # the second one replaces the first
        counts = merge_parts(list_parts(tmp_path, ".lance"), range(599, -1, -1), schema, out)
        assert counts == {"error": 1, "ok": 599}
    table = lance.dataset(str(out)).to_table()
    assert table.schema.field("embedding").type == pa.list_(pa.float16(), 8)
    assert table["id"].to_pylist() == [f"{number:016x}" for number in range(599, -1, -1)]
    assert table["embedding"][592].as_py() is None
    assert table["embedding"][591].as_py() == [8.0] * 8
    groups = list(scan_part(out, schema))
    assert pa.concat_tables([group for _, group in groups]).equals(table.cast(schema))
    assert all(read_group(out, schema, place).equals(group) for place, group in groups)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.lance", "part-0-00000.arrow",
    ]  # fmt: skip


def test_the_message_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(VideopipeError, match=r"\.lance needs .*pip install 'videopipe\[lance\]'"):
        format_of(Path("a.lance"))


@pytest.mark.slow
def test_embeddings_killed_resumed_and_added_to(tiny_model, noisy_video, tmp_path):
    lance = pytest.importorskip("lance", reason=NEEDS_LANCE)
    for number in range(4):
        noisy_video(tmp_path / "films" / f"{number}.mp4", number)
    out = tmp_path / "all.lance"
    words = ["embed", tiny_model, tmp_path / "films", "--out", out, *QUICK]
    kill(start_paused("videopipe.prediction.table.arrow_parts:ArrowPartWriter.flush", 2, words))
    command = [str(word) for word in words]
    assert main(command) == 0
    first = lance.dataset(str(out)).to_table()
    names = [f"{number}.mp4" for number in range(4)]
    assert [Path(path).name for path in first["path"].to_pylist()] == names
    assert first["embedding"].null_count == 0
    noisy_video(tmp_path / "films" / "4.mp4", 4)
    assert main(command) == 0
    both = lance.dataset(str(out)).to_table()
    assert [Path(path).name for path in both["path"].to_pylist()] == [*names, "4.mp4"]
    assert both.slice(0, 4).equals(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.lance", "all.lance.summary.json", "films",
    ]  # fmt: skip
