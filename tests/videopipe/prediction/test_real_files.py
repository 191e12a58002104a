"""Real files from the shared folder: strange ones, truncated ones, and clips classified by I3D."""

import random
from pathlib import Path

import pytest

from pretrained_2d.checkpoints.folder import read_card
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.checkpoints.foreign.labels import read_labels
from videopipe.prediction.operation import predict_table
from videopipe.prediction.request import TableRequest
from videopipe.prediction.table.parts import read_part
from videopipe.prediction.table.table_format import as_rows
from videopipe.scoring.settings import Execution, Scoring

# The actions in the clips. The folder's README calls the second one arm wrestling.
SEEN = {
    "R6llTwEh07w.mp4": "using segway",
    "mmaction2_demo.mp4": "cutting watermelon",
    "flipping_a_pancake.mkv": "flipping pancake",
    "v_Bowling_g05_c06.avi": "bowling",
    "v_SoccerJuggling_g23_c01.avi": "juggling soccer ball",
    "April_09_brush_hair_u_nm_np1_ba_goo_0.avi": "brushing hair",
}


def rows_of(asked: TableRequest) -> list[dict[str, object]]:
    columns = asked.columns(read_card(asked.model))
    return list(as_rows(read_part(asked.out, columns.schema())))


def truncated(sources: list[Path], folder: Path, count: int) -> None:
    """Real videos cut off anywhere, also after a few bytes."""
    cut = random.Random(0)
    folder.mkdir()
    for number in range(count):
        source = sources[number % len(sources)]
        content = source.read_bytes()
        length = round(len(content) * cut.random() ** (1 + number % 3))
        (folder / f"{number:03}{source.suffix}").write_bytes(content[:length])


@pytest.mark.slow
def test_strange_and_truncated_files_go_through_in_one_run(tiny_model, shared, tmp_path):
    sources = sorted((shared / "data" / "weizmann").rglob("*.avi"))[::3]
    sources += sorted((shared / "data" / "hmdb51" / "videos").rglob("*.avi"))
    sources += sorted((shared / "data" / "clips").iterdir())
    truncated(sources, tmp_path / "truncated", 80)
    asked = TableRequest(
        model=tiny_model,
        out=tmp_path / "out.parquet",
        scoring=Scoring(clips=2),
        execution=Execution(device="cpu", workers=2, threads=1),
    )
    summary = predict_table(asked, [shared / "data" / "odd_videos", tmp_path / "truncated"])
    rows = rows_of(asked)
    assert summary["videos"] == len(rows) == len({row["path"] for row in rows}) == 131
    odd = {Path(row["path"]).name: row for row in rows if "odd_videos" in row["path"]}
    assert len(odd) == 51
    lines = (shared / "data" / "odd_videos" / "MANIFEST.tsv").read_text().splitlines()[1:]
    for name, _, opened, *rest in (line.split("\t") for line in lines):
        decoded = opened == "ok" and rest[5] not in ("", "0")
        picture_only = name.endswith(".mp3")  # a cover image is not a video
        assert (odd[name]["status"] in ("ok", "partial")) == (decoded and not picture_only), name
    for row in rows:
        if row["status"] in ("ok", "partial"):
            assert row["clips"] > 0
            assert 0 < row["probability_1"] <= 1
        else:
            assert row["error"], row["path"]
    assert summary["ok"] > 60


@pytest.mark.slow
def test_inception_i3d_classifies_real_clips(shared, tmp_path):
    weights = shared / "data" / "weights"
    request = Adoption(
        checkpoint=weights / "i3d_kinetics400.safetensors",
        architecture="inception_i3d",
        labels=read_labels(str(weights / "kinetics400_labels.txt")),
    )
    adopt(request, tmp_path / "i3d")
    asked = TableRequest(
        model=tmp_path / "i3d",
        out=tmp_path / "out.csv",
        scoring=Scoring(clips=1),
        execution=Execution(device="cpu", workers=1),
    )
    videos = [path for path in (shared / "data").rglob("*.*") if path.name in SEEN]
    assert len(videos) == len(SEEN)
    predict_table(asked, videos)
    for row in rows_of(asked):
        best = [row[f"label_{rank}"] for rank in range(1, 6)]
        assert SEEN[Path(row["path"]).name] in best
