"""Timelines in the report of a run: bars under film frames."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.videopipe.report.test_write import entry, make_run
from videopipe.report.page import Section
from videopipe.report.pictures.timeline_strip import COLOURS
from videopipe.report.sections.predictions import MOST_STRIPS, add_timelines
from videopipe.report.write import write_report
from videopipe.video.writing import write_video

SETTINGS = {"smooth_seconds": 2.0, "on": 0.5, "off": 0.3, "min_seconds": 0.0}


def segment(start: float, end: float, label: str, score: float = 0.9) -> dict:
    return {"start_seconds": start, "end_seconds": end, "label": label, "score": score}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The report of a run with a stage that predicted two videos; one of them is gone."""
    job = entry("windows", "predict", "done")
    run = make_run(tmp_path, [job])
    folder = tmp_path / job["folder"]
    film = tmp_path / "film <b>.mp4"
    red_then_green = np.zeros((16, 48, 64, 3), np.uint8)
    red_then_green[:8, ..., 0] = red_then_green[8:, ..., 1] = 255
    write_video(film, red_then_green, frame_rate=8.0)
    videos = [
        {"path": str(film), "duration_seconds": 2.0,
         "segments": [segment(0, 1, "run & jump"), segment(1, 2, "rest")]},
        {"path": "gone.mp4", "duration_seconds": 4.0, "segments": [segment(1, 3, "rest")]},
        {"path": "unsure.mp4", "duration_seconds": 4.0, "segments": []},
    ]  # fmt: skip
    (folder / "timeline.json").write_text(json.dumps({"settings": SETTINGS, "videos": videos}))
    summary = {"videos": 3, "rows": 9, "statuses": {"ok": 9}, "problems": []}
    (folder / "predictions.parquet.summary.json").write_text(json.dumps(summary))
    return write_report(run)


def test_intervals_are_drawn_under_the_frames(page: Path) -> None:
    text = page.read_text()
    assert "3 videos, 9 rows in predictions.parquet" in text
    assert "3 intervals in 3 videos; smooth_seconds 2, on 0.5, off 0.3, min_seconds 0" in text
    assert text.count("<image href=") == 1
    assert "frames of gone.mp4: no such file" in text
    bars = re.findall(r'<rect x="([\d.]+)"[^>]*width="([\d.]+)"[^>]*fill="([^"]+)"', text)
    first, second, third = COLOURS[0], COLOURS[1], COLOURS[1]  # "rest" has one colour
    assert bars == [("0.0", "479.0", first), ("480.0", "479.0", second), ("240.0", "479.0", third)]
    assert "run &amp; jump 0.90" in text
    assert "<b>" not in text
    assert len(list((page.parent / "pictures").glob("predictions-windows-*.svg"))) == 2


def test_few_strips_of_many_videos() -> None:
    section = Section("timelines", "Timelines")
    one = {"path": "gone.mp4", "duration_seconds": 9.0, "segments": [segment(0, 1, "a")] * 100}
    add_timelines(section, [one] * 20, "on 0.5")
    assert len(section.pictures) == MOST_STRIPS
    assert section.tables[0].caption == "300 of 2000 intervals"
    assert section.text == ["2000 intervals in 20 videos; on 0.5."]


def test_a_browser_shows_frames_above_bars(page: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no Chromium; to run this test: apt install chromium")
    shot = tmp_path / "page.png"
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,2400",
        f"--screenshot={shot}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    pixels = np.asarray(Image.open(shot).convert("RGB")).astype(int)
    places = {}
    for name, colour in {
        "red": (254, 0, 0), "green": (0, 255, 1), "first": _rgb(COLOURS[0]),
        "second": _rgb(COLOURS[1]),
    }.items():  # fmt: skip
        rows, columns = np.nonzero(np.abs(pixels - colour).max(-1) < 24)
        assert len(rows) > 500, f"{name} is not on the page"
        places[name] = np.median(rows), np.median(columns)
    assert places["red"][0] < places["first"][0]  # frames above their bar
    assert places["green"][0] < places["second"][0]
    assert abs(places["red"][1] - places["first"][1]) < 40  # and at the same time
    assert places["red"][1] < places["green"][1]


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))
