"""A video has one id for every spelling of its path; any name survives every format."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrained_2d.checkpoints.folder import read_card
from videopipe.dataset.lists.video_range import VideoRange, path_as_text, text_as_path
from videopipe.prediction.operation import predict_table
from videopipe.prediction.request import TableRequest
from videopipe.prediction.resume import summary_path
from videopipe.prediction.table.parts import read_part, write_part
from videopipe.prediction.table.table_format import as_rows
from videopipe.scoring.settings import Execution

QUICK = Execution(device="cpu", workers=1, threads=1)
ODD_NAMES = [
    b"caf\xe9.mp4",
    b"both \xc3\xa9 and \xe9.mp4",
    b"line\rfeed\nand\ttab.mp4",
    rb"back\slash.mp4",
    rb"looks like \xe9.mp4",
    rb"\\xe9 \x5c.mp4",
    b'comma, "quote".mp4',
    b" blanks .mp4",
]


def request(model: Path, out: Path, **changes: object) -> TableRequest:
    return TableRequest(**{"model": model, "out": out, "execution": QUICK} | changes)


def rows_of(asked: TableRequest) -> list[dict[str, object]]:
    schema = asked.columns(read_card(asked.model)).schema()
    return list(as_rows(read_part(asked.out, schema)))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_every_name_has_a_text_from_which_it_is_restored(name):
    text = path_as_text(os.fsdecode(name))
    text.encode()
    assert not any(character in text for character in "\r\n\t")
    assert os.fsencode(text_as_path(text)) == name


def test_plain_names_are_their_own_text():
    for path in ("/data/a b.mp4", "café.mp4", r"C:\clips\run.mp4", "日本.mp4"):
        assert path_as_text(path) == path == text_as_path(path)


def test_one_id_for_every_way_to_write_a_path(tmp_path, monkeypatch):
    (tmp_path / "vids/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("vids")
    monkeypatch.chdir(tmp_path)
    ways = ("vids/a.mp4", "./vids/a.mp4", "vids//a.mp4", "vids/deep/../a.mp4", "link/a.mp4")
    ids = {VideoRange(path).id for path in (*ways, str(tmp_path / "vids/a.mp4"))}
    assert len(ids) == 1
    monkeypatch.chdir(tmp_path / "vids")
    assert {VideoRange("a.mp4").id, VideoRange("../link/a.mp4").id} == ids
    assert VideoRange("../a.mp4").id not in ids  # another folder, another video
    assert VideoRange("a.mp4", 0, 1).id == VideoRange("a.mp4", 0.0, 1.0).id not in ids


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_the_same_videos_from_elsewhere_have_the_same_rows(
    tiny_model, noisy_video, tmp_path, monkeypatch, suffix
):
    for number in range(3):
        noisy_video(tmp_path / "vids" / f"{number}.mp4", number)
    asked = request(tiny_model, tmp_path / f"all{suffix}")
    monkeypatch.chdir(tmp_path)
    predict_table(asked, ["vids"])
    before = rows_of(asked)
    assert [row["path"] for row in before] == ["vids/0.mp4", "vids/1.mp4", "vids/2.mp4"]
    noisy_video(tmp_path / "vids/new.mp4", 9)
    for number, (folder, way) in enumerate(
        [(tmp_path, "./vids"), (Path("/"), tmp_path / "vids"), (tmp_path / "vids", ".")]
    ):
        monkeypatch.chdir(folder)
        summary = predict_table(asked, [way])
        assert summary["videos"] == summary["rows"] == 4
        assert number or summary["predicted_in_this_run"] == 1
        assert [row["path"] for row in rows_of(asked)][:3] == [row["path"] for row in before]


def old_id(path: str) -> str:
    words = f"{path}\0None\0None"
    return hashlib.blake2b(os.fsencode(words), digest_size=8).hexdigest()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_tables_of_earlier_versions_are_added_to(
    tiny_model, noisy_video, tmp_path, monkeypatch, suffix
):
    """Their ids came from the spelling of the path, and a video could be there twice."""
    for number in range(3):
        noisy_video(tmp_path / "vids" / f"{number}.mp4", number)
    monkeypatch.chdir(tmp_path)
    asked = request(tiny_model, tmp_path / f"all{suffix}")
    predict_table(asked, ["vids"])
    new = rows_of(asked)
    old = [row | {"id": old_id(str(row["path"]))} for row in new]
    twice = f"./{new[0]['path']}"
    old.append(new[0] | {"path": twice, "id": old_id(twice)})
    write_part(asked.out, old, asked.columns(read_card(tiny_model)).schema())
    noisy_video(tmp_path / "vids/3.mp4", 3)
    summary = predict_table(asked, [tmp_path / "vids"])
    assert summary["predicted_in_this_run"] == 1
    assert summary["rows"] == 4
    assert rows_of(asked)[:3] == new


def odd_videos(folder: Path, noisy_video) -> list[Path]:
    plain = noisy_video(folder.parent / "plain.mp4", 1)
    folder.mkdir()
    for name in ODD_NAMES:
        (folder / os.fsdecode(name)).write_bytes(plain.read_bytes())
    return sorted(folder.iterdir())


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_odd_names_through_the_command_and_back_through_the_table(
    tiny_model, noisy_video, tmp_path, suffix
):
    videos = odd_videos(tmp_path / "videos", noisy_video)
    out = tmp_path / f"all{suffix}"
    command = [sys.executable, "-m", "videopipe", "predict", tiny_model]
    options = ["--device", "cpu", "-j", "1", "--threads", "1"]
    subprocess.run([*command, *videos, "--out", out, *options], check=True, capture_output=True)
    asked = request(tiny_model, out)
    rows = rows_of(asked)
    assert [row["status"] for row in rows] == ["ok"] * len(videos)
    assert {text_as_path(str(row["path"])) for row in rows} == set(map(str, videos))
    with (tmp_path / "paths.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path"], *([row["path"]] for row in rows)])
    summary = predict_table(asked, [tmp_path / "paths.csv"])  # the paths of a table are a list
    assert summary["videos"] == summary["predicted_in_this_run"] == len(videos)
    assert rows_of(asked) == rows


def test_odd_names_in_a_list_of_bytes_and_a_csv(tiny_model, noisy_video, tmp_path):
    videos = odd_videos(tmp_path / "videos", noisy_video)
    lines = [os.fsencode(video) for video in videos if "\n" not in str(video)]
    (tmp_path / "list.txt").write_bytes(b"\n".join(lines))
    quoted = [b'"' + os.fsencode(video).replace(b'"', b'""') + b'"' for video in videos]
    (tmp_path / "list.csv").write_bytes(b"path\n" + b"\n".join(quoted))
    for name, count in (("list.txt", len(lines)), ("list.csv", len(videos))):
        asked = request(tiny_model, tmp_path / f"{name}.parquet")
        assert predict_table(asked, [tmp_path / name])["statuses"] == {"ok": count}


def test_odd_names_in_problems_and_errors(tiny_model, noisy_video, tmp_path):
    noisy_video(tmp_path / "a.mp4", 1)
    missing = os.fsdecode(b"gone\xe9\n.mp4")
    pattern = os.fsdecode(b"\xe9*.mp4")
    for suffix in (".parquet", ".csv", ".jsonl"):
        asked = request(tiny_model, tmp_path / f"all{suffix}")
        summary = predict_table(asked, [tmp_path / "a.mp4", tmp_path / missing, pattern])
        assert summary == json.loads(summary_path(asked.out).read_text())
        assert summary["problems"] == [f"{pattern}: the pattern matches nothing"]
        assert [row["status"] for row in rows_of(asked)] == ["ok", "missing"]


def test_an_unexpected_error_with_an_odd_argument_is_still_reported(tmp_path):
    """The traceback names the arguments."""
    script = (
        "import sys\n"
        "from videopipe import cli\n"
        "from videopipe.commands.videos import predict\n"
        "def fail(args): raise RuntimeError('broken')\n"
        "predict.main = fail\n"
        "sys.exit(cli.main())\n"
    )
    arguments = [b"predict", b"model", b"caf\xe9.mp4", b"--out", b"x.csv"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 3
    assert b"The traceback is in error.log" in done.stderr
    assert "caf" in (tmp_path / "error.log").read_text()


def test_scores_of_21841_classes_and_carriage_returns_in_csv(tmp_path):
    schema = pa.schema(
        [("id", pa.string()), ("path", pa.string()), ("scores", pa.list_(pa.float32()))]
    )
    scores = [1.0 / (number + 3) for number in range(21_841)]
    rows = [{"id": "0", "path": 'a\r,"b".mp4', "scores": scores}, {"id": "1", "path": "\uf8ff"}]
    write_part(tmp_path / "a.csv", rows, schema)
    found = list(as_rows(read_part(tmp_path / "a.csv", schema)))
    assert [row["path"] for row in found] == ['a\r,"b".mp4', "\uf8ff"]
    assert found[0]["scores"] == pytest.approx(scores, rel=2**-23)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert next(iter(list(csv.reader(file))[1:]))[1] == 'a\r,"b".mp4'
    # Older tables did not quote a carriage return.
    (tmp_path / "old.csv").write_bytes(b"id,path,scores\n0,a\rb.mp4,\n1,c.mp4,\n")
    assert [row["path"] for row in as_rows(read_part(tmp_path / "old.csv", schema))] == [
        "a\rb.mp4",
        "c.mp4",
    ]
    pq.write_table(read_part(tmp_path / "a.csv", schema), tmp_path / "a.parquet")
