import csv
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from tests.processes import kill, start_paused
from tests.videopipe.tiny_model import save_tiny_model
from videopipe.cli import main
from videopipe.models import load_model
from videopipe.video.video import open_video

QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]
PAUSED = "videopipe.prediction.table.arrow_parts:ArrowPartWriter.add"


@pytest.fixture(scope="module")
def films(tmp_path_factory, noisy_video) -> Path:
    folder = tmp_path_factory.mktemp("films")
    for number in range(4):
        noisy_video(folder / f"{number}.mp4", number, 15 + 15 * (number == 1))
    (folder / "bad.mp4").write_bytes(b"nothing")
    return folder


@pytest.fixture(scope="module")
def image_model(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "image", ndim=2)


def embed(model: Path, paths: Path, out: Path, *options: str) -> Path:
    assert main(["embed", str(model), str(paths), "--out", str(out), *options, *QUICK]) == 0
    return out


def vectors(out: Path) -> dict[tuple[str, float | None], np.ndarray]:
    """By file name and start, from any table; rows without a vector are left out."""
    rows = parquet.read_table(out).to_pylist()
    return {
        (Path(row["path"]).name, row["start_seconds"]): np.array(row["embedding"])
        for row in rows
        if row["embedding"] is not None
    }


def clip_of(path: Path, card, start: float, num_frames: int, seconds: float) -> torch.Tensor:
    """(1, channels, time, height, width), read and normalised without the engine."""
    times = [start + (number + 0.5) * seconds / num_frames for number in range(num_frames)]
    with open_video(path) as video:
        frames = card.preprocessing.resize_and_crop(video.frames_at(times))
    return card.preprocessing.normalize(frames.transpose(0, 1)[None])


def test_a_vector_per_video_as_lists_of_fixed_size(tiny_model, films, tmp_path, capsys):
    out = embed(tiny_model, films, tmp_path / "all.parquet")
    assert "5 videos, 5 rows (1 error, 4 ok)" in capsys.readouterr().err
    table = parquet.read_table(out)
    assert table.schema.field("embedding").type == pa.list_(pa.float16(), 16)
    assert table["embedding"].null_count == 1
    # One second is two clips of half a second: the mean of their embeddings.
    network, card = load_model(tiny_model)
    with torch.inference_mode():
        clips = [clip_of(films / "0.mp4", card, start, 4, 0.5) for start in (0.0, 0.5)]
        expected = torch.stack([network.eval().embed(clip)[0] for clip in clips]).mean(0)
    found = vectors(out)["0.mp4", 0.0]
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-3, atol=2e-3)


def test_float32_is_what_predict_gives(tiny_model, films, tmp_path):
    out = embed(tiny_model, films, tmp_path / "all.parquet", "--dtype", "float32")
    assert parquet.read_schema(out).field("embedding").type == pa.list_(pa.float32(), 16)
    command = ["predict", str(tiny_model), str(films), "--embeddings", *QUICK]
    assert main([*command, "--out", str(tmp_path / "predicted.parquet")]) == 0
    predicted = vectors(tmp_path / "predicted.parquet")
    assert vectors(out).keys() == predicted.keys()
    for key, vector in vectors(out).items():
        np.testing.assert_array_equal(vector, predicted[key])
    of_fixed_size = parquet.read_schema(tmp_path / "predicted.parquet").field("embedding")
    assert of_fixed_size.type == pa.list_(pa.float32(), 16)


def test_a_table_with_lists_of_any_size_is_added_to(tiny_model, films, tmp_path):
    out = tmp_path / "predicted.parquet"
    command = ["predict", str(tiny_model), "--embeddings", "--out", str(out), *QUICK]
    assert main([*command, str(films / "0.mp4"), str(films / "bad.mp4")]) == 0
    table = parquet.read_table(out)
    field = pa.field("embedding", pa.list_(pa.float32()))
    index = table.schema.get_field_index("embedding")
    table = table.set_column(index, field, table["embedding"].cast(field.type))
    parquet.write_table(table, out)
    assert main([*command, str(films / "0.mp4"), str(films / "1.mp4"), str(films / "bad.mp4")]) == 0
    added = parquet.read_table(out)
    assert added.schema.field("embedding").type == pa.list_(pa.float32(), 16)
    assert [row is None for row in added["embedding"].to_pylist()] == [False, False, True]
    assert added["embedding"][0].as_py() == table["embedding"][0].as_py()


def test_a_vector_per_frame_of_an_image_network(image_model, films, tmp_path):
    options = ["--per", "frame", "--num-frames", "4", "--clip-seconds", "0.8"]
    out = embed(image_model, films / "0.mp4", tmp_path / "frames.parquet", *options)
    rows = parquet.read_table(out).to_pylist()
    starts = [row["start_seconds"] for row in rows]  # the video has one second
    assert starts == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert rows[-1]["end_seconds"] == pytest.approx(1.0)
    assert [row["last"] for row in rows] == [False] * 4 + [True]
    network, card = load_model(image_model)
    frames = clip_of(films / "0.mp4", card, 0.0, 4, 0.8)[0].transpose(0, 1)
    with torch.inference_mode():
        expected = network.eval().embed(frames)
    found = np.array([row["embedding"] for row in rows[:4]])
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-3, atol=2e-3)


def test_the_output_of_a_named_layer(tiny_model, films, tmp_path):
    options = ["--per", "window", "--layer", "stages.1", "--dtype", "float32"]
    out = embed(tiny_model, films / "1.mp4", tmp_path / "layer.parquet", *options)
    network, card = load_model(tiny_model)
    seen = []
    with torch.inference_mode(), network.eval().get_submodule("stages.1").register_forward_hook(
        lambda _, __, output: seen.append(output)
    ):  # fmt: skip
        network(clip_of(films / "1.mp4", card, 0.5, 4, 0.5))
    expected = seen[0][0].flatten(1).mean(1)  # over time, height and width
    np.testing.assert_allclose(vectors(out)["1.mp4", 0.5], expected.numpy(), rtol=1e-5, atol=1e-6)


def test_every_form_holds_the_same_vectors(tiny_model, films, tmp_path):
    options = ["--per", "window"]
    expected = vectors(embed(tiny_model, films, tmp_path / "all.parquet", *options))
    shard = embed(tiny_model, films, tmp_path / "all.tar", *options)
    with tarfile.open(shard) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}
    found = {}
    for name, content in members.items():
        key, kind = name.split(".", 1)
        if kind == "embedding.npy":
            row = json.loads(members[f"{key}.json"])
            (tmp_path / "one.npy").write_bytes(content)
            found[Path(row["path"]).name, row["start_seconds"]] = np.load(tmp_path / "one.npy")
    same(found, expected)
    assert len([name for name in members if name.endswith(".json")]) == len(expected) + 1  # bad.mp4

    folder = embed(tiny_model, films, tmp_path / "arrays", *options)
    found = {}
    for row in parquet.read_table(folder / "index.parquet").to_pylist():
        if row["file"] is not None:
            array = np.load(folder / row["file"])
            assert array.dtype == np.float16
            assert list(array.shape) == row["shape"]
            for start, vector in zip(row["starts_seconds"], array, strict=True):
                found[Path(row["path"]).name, start] = vector
    same(found, expected)

    text = embed(tiny_model, films, tmp_path / "all.csv", *options)
    with text.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["embedding"]]
    keys = [(Path(row["path"]).name, float(row["start_seconds"])) for row in rows]
    arrays = [np.float16(json.loads(row["embedding"])) for row in rows]
    found = dict(zip(keys, arrays, strict=True))
    same(found, expected)


def same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for key, vector in expected.items():
        np.testing.assert_array_equal(found[key], vector)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["all.parquet", "all.tar", "arrays"])
def test_killed_and_resumed_there_is_one_row_per_window(tiny_model, films, tmp_path, out):
    options = ["--per", "window"]
    whole = embed(tiny_model, films, tmp_path / "whole" / out, *options)
    command = ["embed", tiny_model, films, "--out", tmp_path / "killed" / out, *options, *QUICK]
    target = PAUSED if out != "arrays" else PAUSED.replace("arrow_parts:Arrow", "parts:")
    kill(start_paused(target, 3, command))
    resumed = embed(tiny_model, films, tmp_path / "killed" / out, *options)
    for file in [whole] if whole.is_file() else sorted(whole.rglob("*.npy")):
        assert (resumed / file.relative_to(whole)).read_bytes() == file.read_bytes()
    if out == "arrays":
        rows = parquet.read_table(resumed / "index.parquet").to_pylist()
        assert len({row["id"] for row in rows}) == len(rows) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layer", "stages.9"], "the network has no layer 'stages.9'; it has"),
        (["--per", "frame"], "has no time axis, so there is no embedding per frame"),
        (["--per", "frame", "--stride-seconds", "1"], "--stride-seconds is for --per window"),
        (["--stride-seconds", "1"], "--stride-seconds is for windows; add --per window"),
        (["--out", "x.xlsx"], ".arrow, .tar, .lance, or a folder (no suffix)"),
    ],
)
def test_bad_settings_are_refused(
    tiny_model, films, tmp_path, capsys, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    command = ["embed", str(tiny_model), str(films), "--out", "x.parquet", *options, *QUICK]
    assert main(command) in (1, 2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
