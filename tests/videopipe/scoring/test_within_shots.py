"""Clips that do not cross a cut: every frame of a clip is of one shot."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pretrained_2d.checkpoints.card import Preprocessing
from videopipe.cli import main
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.scoring.clips import ClipPlan, ClipTask, DecodedClip, VideoFacts, decode_clips
from videopipe.scoring.settings import Scoring
from videopipe.video.writing import write_video

PLAN = ClipPlan(
    num_frames=4, clip_seconds=1.0, preprocessing=Preprocessing(image_size=32, resize=32),
    clips=None, stride_seconds=0.5, crops=1, decoder="auto", within_shots=True,
)  # fmt: skip
LEVELS, LENGTHS, RATE = (20, 120, 220), (20, 7, 13), 10.0  # shots of 2, 0.7 and 1.3 seconds


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "film.mp4"
    shots = [
        np.full((length, 48, 64, 3), level, np.uint8)
        for level, length in zip(LEVELS, LENGTHS, strict=True)
    ]
    write_video(path, np.concatenate(shots), frame_rate=RATE)
    return path


def decoded(film: Path, plan: ClipPlan, start=None, end=None, **task) -> list[DecodedClip]:
    source = VideoRange(str(film), start, end)
    found = decode_clips(ClipTask(0, source, plan, **task))
    return [one for one in found if isinstance(one, DecodedClip)]


def test_every_clip_is_of_one_shot(film: Path) -> None:
    clips = decoded(film, PLAN)
    bounds = [(clip.start_seconds, clip.end_seconds, clip.shot) for clip in clips]
    expected = [
        (0.0, 1.0, 0), (0.5, 1.5, 0), (1.0, 2.0, 0), (2.0, 2.7, 1), (2.7, 3.7, 2), (3.0, 4.0, 2),
    ]  # fmt: skip
    assert np.array(bounds) == pytest.approx(np.array(expected), abs=1e-3)
    for clip in clips:
        assert np.abs(clip.frames.numpy().astype(int) - LEVELS[clip.shot]).max() < 12
    # The same from the middle of a video that was interrupted, and of a range.
    assert [clip.shot for clip in decoded(film, PLAN, windows_done=3)] == [1, 2, 2]
    ranged = decoded(film, PLAN, 1.5, 3.0)
    bounds = [(clip.start_seconds, clip.end_seconds, clip.shot) for clip in ranged]
    expected = [(1.5, 2.0, 0), (2.0, 2.7, 1), (2.7, 3.0, 2)]
    assert np.array(bounds) == pytest.approx(np.array(expected), abs=1e-3)


def test_by_default_clips_cross_cuts(film: Path) -> None:
    clips = decoded(film, replace(PLAN, within_shots=False))
    mixed = [clip for clip in clips if np.ptp(clip.frames.numpy().astype(int)) > 50]
    assert len(mixed) >= 2
    assert {clip.shot for clip in clips} == {0}


def test_cuts_of_a_folder_of_frames_are_at_its_own_rate(tmp_path: Path) -> None:
    for number, level in enumerate(np.repeat((20, 220), (12, 8))):
        picture = Image.fromarray(np.full((48, 64, 3), level, np.uint8))
        picture.save(tmp_path / f"frame_{number:03}.png")
    source = VideoRange(str(tmp_path), frame_rate=4.0)
    found = decode_clips(ClipTask(0, source, replace(PLAN, stride_seconds=1.0)))
    clips = [clip for clip in found if isinstance(clip, DecodedClip)]
    starts = [(clip.start_seconds, clip.shot) for clip in clips]
    assert starts == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]
    for clip in clips:
        assert np.ptp(clip.frames.numpy()) == 0


def test_a_budget_of_time_ends_the_search_for_cuts(film: Path) -> None:
    *_, last = decode_clips(ClipTask(0, VideoRange(str(film)), PLAN, max_seconds=0.0))
    assert isinstance(last, VideoFacts)
    assert last.too_long == "finding the cuts took more than 0 s (max_seconds_per_video)"


def test_older_tables_stay_valid_and_clips_are_refused() -> None:
    assert "within_shots" not in Scoring().identity()
    assert Scoring(within_shots=True).identity()["within_shots"] is True
    with pytest.raises(ValueError, match="leave it out with within_shots"):
        Scoring(clips=3, within_shots=True)


def test_rows_name_their_shot(film: Path, tiny_model: Path, tmp_path: Path) -> None:
    quick = ["--within-shots", "--device", "cpu", "--workers", "1", "--threads", "1"]
    table, timeline = tmp_path / "windows.jsonl", tmp_path / "timeline.json"
    words = ["predict", tiny_model, film, "--out", table, "--timeline", timeline, *quick]
    words += ["--on", "0.01", "--off", "0.01"]
    assert main([str(word) for word in words]) == 0
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert sorted({row["shot"] for row in rows}) == [0, 1, 2]
    assert all(row["end_seconds"] <= 2.001 for row in rows if row["shot"] == 0)
    (video,) = json.loads(timeline.read_text())["videos"]
    for segment in video["segments"][1:]:  # the shots are still, so labels change at cuts only
        assert min(abs(segment["start_seconds"] - cut) for cut in (2.0, 2.7)) < 1e-3
    vectors = tmp_path / "windows.parquet"
    words = ["embed", tiny_model, film, "--per", "window", "--out", vectors, *quick]
    assert main([str(word) for word in words]) == 0
