"""Folders of numbered images are videos: decoding, data sets, training clips and predictions."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.dataset.indexing import Inspection, index_dataset
from videopipe.errors import DataError, DecodeError
from videopipe.evaluation.labelled import score_records
from videopipe.models import load_model
from videopipe.prediction.operation import TableRequest, predict_table
from videopipe.prediction.table.parts import read_part
from videopipe.scoring.settings import Execution, Scoring
from videopipe.video.frame_folder import frame_names
from videopipe.video.video import EndOfVideoError, open_video

QUICK = Execution(device="cpu", workers=1, threads=1)


def frame_folder(
    folder: Path, num_frames: int = 12, pattern: str = "{:05}.jpg", first: int = 1, seed: int = 0
) -> Path:
    """Frame n is grey 10 n, with a stripe that depends on the seed."""
    folder.mkdir(parents=True)
    for number in range(num_frames):
        pixels = np.full((40, 56, 3), 10 * number, np.uint8)
        pixels[:, 8 * (seed % 7) : 8 * (seed % 7) + 8] = 255 - 10 * number
        Image.fromarray(pixels).save(folder / pattern.format(first + number), quality=95)
    return folder


def rows_of(asked: TableRequest) -> list[dict[str, object]]:
    from videopipe.prediction.operation import read_card

    return read_part(asked.out, asked.columns(read_card(asked.model)).schema()).to_pylist()


def test_names_of_frames():
    assert frame_names(["00002.jpg", "00001.jpg", "info.txt"]) == {1: "00001.jpg", 2: "00002.jpg"}
    assert len(frame_names(["frames_000123.png", "frames_000124.png"])) == 2
    flow = ["flow_x_1.jpg", "flow_x_2.jpg", "img_1.jpg", "img_2.jpg"]
    assert frame_names(flow) == {1: "img_1.jpg", 2: "img_2.jpg"}
    assert not frame_names(["1.jpg"])
    assert not frame_names(["1.jpg", "2.jpg", "cover.jpg"])
    assert not frame_names(["a1.jpg", "a2.jpg", "b1.jpg", "b2.jpg"])


@pytest.mark.parametrize("pattern", ["{:05}.jpg", "frames_{:06}.png", "img_{}.JPG"])
def test_frames_by_time(tmp_path, pattern):
    folder = frame_folder(tmp_path / "clip", pattern=pattern)
    with open_video(folder, frame_rate=12) as video:
        assert (video.duration_seconds, video.info.num_frames, video.problems) == (1.0, 12, [])
        frames = video.frames_at([0.0, 1 / 12, 0.5, 0.51, 0.99, 1.3, 0.2])
        greys = frames[:, :, 20, 30].float().mean(1).round().tolist()
        assert np.allclose(greys, [0, 10, 60, 60, 110, 110, 20], atol=2)
        with pytest.raises(EndOfVideoError):
            video.frames_at([2.0])
    with open_video(folder, short_side=20, frame_rate=12) as video:
        assert video.frames_at([0.0]).shape == (1, 3, 20, 28)


def test_missing_and_bad_frames_are_named(tmp_path):
    folder = frame_folder(tmp_path / "clip")
    (folder / "00005.jpg").unlink()
    with open_video(folder, frame_rate=10) as video:
        assert video.problems == ["1 frames are missing, the first is number 5"]
        frames = video.frames_at([0.35, 0.45])  # number 5 shows number 4
        assert (frames[0] == frames[1]).all()
        (folder / "00007.jpg").write_bytes(b"not a picture")
        with pytest.raises(DecodeError, match=r"frame 00007.jpg cannot be decoded"):
            video.frames_at([0.65])
        Image.new("RGB", (10, 10)).save(folder / "00008.jpg")
        with pytest.raises(DecodeError, match=r"00008.jpg has 10×10 pixels, the first has 56×40"):
            video.frames_at([0.75])
    with pytest.raises(DecodeError, match="11 numbered images without a frame rate"):
        open_video(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DecodeError, match="expected a video file, or a folder of numbered images"):
        open_video(tmp_path / "empty", frame_rate=10)
    for number in range(2, 13):
        (folder / f"{number:05}.jpg").unlink(missing_ok=True)
    Image.new("RGB", (56, 40)).save(folder / "90000.jpg")
    with pytest.raises(DecodeError, match="numbered 1 to 90000, but there are only 2"):
        open_video(folder, frame_rate=10)


def test_a_data_set_of_frames_is_indexed_trained_on_and_evaluated(tiny_model, tmp_path):
    data = tmp_path / "data"
    for number, label in enumerate(("left", "right", "up", "down")):
        for clip in range(2):
            frame_folder(data / "train" / label / f"{clip}", seed=number)
        frame_folder(data / "test" / label / "9", seed=number)
    (data / "test" / "up" / "9" / "00003.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="12 folders of numbered images found, without a frame rat"):
        index_dataset(data, inspection=Inspection(workers=1))
    inspection = Inspection(depth="full", workers=1)
    manifest = index_dataset(data, inspection=inspection, frame_rate=12.0, folder=tmp_path / "out")
    assert manifest.labels == ("down", "left", "right", "up")
    bad = [record for record in manifest.records if not record.usable]
    assert ["frame 00003.jpg cannot be decoded" in record.reason for record in bad] == [True]
    usable = [record for record in manifest.records if record.usable]
    records = [record for record in usable if record.split == "test"]
    assert {(r.codec, r.duration_seconds, r.given_rate) for r in records} == {("frames", 1.0, 12.0)}
    training = [record for record in usable if record.split == "train"]
    clips = ClipDataset(training, num_frames=4, clip_seconds=0.5)
    assert clips[0][0].shape == (3, 4, 40, 56)
    network, card = load_model(tiny_model)
    table = score_records(
        network, card, records, manifest.labels, scoring=Scoring(), execution=QUICK
    )
    assert set(table.statuses) == {"ok"}


def test_predictions_of_folders_and_of_a_list_with_rates(tiny_model, tmp_path, noisy_video):
    folder = tmp_path / "videos"
    for number in range(3):
        frame_folder(folder / "set" / f"{number}", seed=number)
    noisy_video(folder / "film.mp4", 1)
    asked = TableRequest(
        model=tiny_model, out=tmp_path / "all.csv", execution=QUICK, frame_rate=12.0
    )
    assert predict_table(asked, [folder])["statuses"] == {"ok": 4}
    rows = rows_of(asked)
    assert [Path(str(row["path"])).name for row in rows] == ["film.mp4", "0", "1", "2"]
    assert [row["duration_seconds"] for row in rows] == [1.0] * 4
    # Resuming keeps the rows; a folder with a changed frame is predicted again.
    Image.new("RGB", (56, 40)).save(folder / "set" / "1" / "00013.jpg")
    summary = predict_table(asked, [folder, folder / "set" / "0"])
    assert (summary["rows"], summary["predicted_in_this_run"]) == (4, 1)
    (tmp_path / "list.csv").write_text(
        "path,fps\nvideos/set/0,6\nvideos/set/1,\nvideos/film.mp4,99\n"
    )
    listed = TableRequest(model=tiny_model, out=tmp_path / "list.parquet", execution=QUICK)
    assert predict_table(listed, [tmp_path / "list.csv"])["statuses"] == {"error": 1, "ok": 2}
    found = rows_of(listed)
    assert [row["duration_seconds"] for row in found] == [2.0, None, 1.0]
    assert "numbered images without a frame rate" in str(found[1]["error"])
    with pytest.raises(DataError, match=r"3 folders of numbered images; .* give --frame-rate"):
        predict_table(TableRequest(model=tiny_model, out=tmp_path / "no.csv"), [folder / "set"])
