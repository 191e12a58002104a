"""`predict --timeline`: every form of the same intervals, and boundaries of glued real clips."""

import csv
import html
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import av
import pyarrow.parquet as parquet
import pytest

from videopipe.cli import main
from videopipe.prediction.timeline.segments import Segment
from videopipe.prediction.timeline.timeline_files import write_timelines
from videopipe.prediction.timeline.timeline_settings import TimelineSettings
from videopipe.prediction.timeline.timeline_table import VideoTimeline
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

SHARED = Path(
    os.environ.get("VIDEOPIPE_SHARED", Path(__file__).resolve().parents[5] / "shared")
) / "data"  # fmt: skip
QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]
GLUED = (
    ("R6llTwEh07w.mp4", "using segway"),
    ("v_Bowling_g05_c06.avi", "bowling"),
    ("flipping_a_pancake.mkv", "flipping pancake"),
)
CLIP_SECONDS, RATE = 3.0, 16.0


def test_every_form_has_the_same_intervals(tiny_model, noisy_video, tmp_path, capsys):
    film = noisy_video(tmp_path / "film.mp4", 3, 60)
    forms = ("csv", "parquet", "json", "srt", "vtt", "svg", "html")
    files = [str(tmp_path / f"film.{form}") for form in forms]
    options = [word for file in files for word in ("--timeline", file)]
    command = ["predict", str(tiny_model), str(film), "--out", str(tmp_path / "windows.parquet")]
    assert main([*command, *options, "--on", "0.3", "--off", "0.2", *QUICK]) == 0
    printed = capsys.readouterr()
    assert "in 1 video; smooth_seconds 0.5, on 0.3, off 0.2, min_seconds 0" in printed.err
    assert printed.out.splitlines()[1:] == files
    content = json.loads((tmp_path / "film.json").read_text())
    assert content["settings"] == {"smooth_seconds": 0.5, "on": 0.3, "off": 0.2, "min_seconds": 0}
    (video,) = content["videos"]
    segments = video["segments"]
    assert segments
    assert segments[-1]["end_seconds"] <= 4.0
    rows = parquet.read_table(tmp_path / "film.parquet").to_pylist()
    assert [{key: row[key] for key in segments[0]} for row in rows] == segments
    with (tmp_path / "film.csv").open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [one["label"] for one in segments]
    starts = [f"{one['start_seconds']:.3f}" for one in segments]
    for form in ("srt", "vtt"):
        text = (tmp_path / f"film.{form}").read_text()
        cues = re.findall(r"00:00:(\d\d)[.,](\d{3}) --> ", text)
        assert [f"{int(whole)}.{part}" for whole, part in cues] == starts
    assert (tmp_path / "film.vtt").read_text().startswith("WEBVTT\n\nNOTE smooth_seconds 0.5")
    picture = ElementTree.parse(tmp_path / "film.svg").getroot()
    kinds = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert kinds.count("image") == 1
    assert kinds.count("rect") == len(segments)
    page = (tmp_path / "film.html").read_text()
    assert page.count("<rect ") == len(segments)
    assert page.count("data:image/jpeg;base64") == 1


def test_a_video_that_failed_says_why_in_place_of_intervals(tiny_model, noisy_video, tmp_path):
    noisy_video(tmp_path / "a.mp4", 3)
    (tmp_path / "b.mp4").write_bytes(b"<nothing>")
    forms = ("json", "vtt", "svg", "html")
    options = [word for form in forms for word in ("--timeline", str(tmp_path / f"day.{form}"))]
    command = ["predict", str(tiny_model), str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4")]
    assert main([*command, "--out", str(tmp_path / "w.csv"), *options, *QUICK]) == 0
    good, bad = json.loads((tmp_path / "day.json").read_text())["videos"]
    assert good["error"] is None
    assert "cannot be opened as a video" in bad["error"]
    assert bad["segments"] == []
    words = f"no result: {bad['error']}"
    (captions,) = tmp_path.glob("day.b.*.vtt")
    assert f"\n\nNOTE {words}\n" in captions.read_text()
    (picture,) = tmp_path.glob("day.b.*.svg")
    texts = [text for text in ElementTree.parse(picture).getroot().itertext() if text.strip()]
    assert texts[1].startswith(f"{words}; smooth_seconds")
    assert f"no timeline of {tmp_path}/b.mp4: {bad['error']}" in (tmp_path / "day.html").read_text()
    assert all("no result" not in file.read_text() for file in tmp_path.glob("day.a.*"))


def test_a_file_per_video_and_bad_names(tiny_model, noisy_video, tmp_path, capsys):
    for number in range(2):
        noisy_video(tmp_path / "films" / f"{number}.mp4", number)
    command = [
        "predict",
        str(tiny_model),
        str(tmp_path / "films"),
        "--out",
        str(tmp_path / "w.csv"),
    ]
    assert main([*command, "--timeline", str(tmp_path / "sub" / "day.srt"), *QUICK]) == 0
    names = sorted(file.name for file in (tmp_path / "sub").iterdir())
    assert [re.sub(r"\.[0-9a-f]{8}\.", ".ID.", name) for name in names] == [
        "day.0.ID.srt", "day.1.ID.srt",
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path}/sub/day.*.srt (2 files)"
    assert main([*command, "--timeline", "day.doc", *QUICK]) == 2
    assert "--timeline is 'day.doc'; expected a name ending in .parquet" in capsys.readouterr().err
    assert main([*command, "--timeline", "day.csv", "--on", "0.1", *QUICK]) == 2


def glue(path: Path) -> None:
    """Three seconds of each clip, one after the other, at one size and rate."""

    def frames():
        for name, _ in GLUED:
            with open_video(SHARED / "clips" / name) as video:
                middle = video.duration_seconds / 2
                times = [
                    middle + number / RATE - CLIP_SECONDS / 2
                    for number in range(round(CLIP_SECONDS * RATE))
                ]
                clip = video.frames_at(times)  # (time, 3, height, width)
            side = min(clip.shape[2:])
            top, left = (clip.shape[2] - side) // 2, (clip.shape[3] - side) // 2
            square = clip[:, :, top : top + side, left : left + side].float()
            import torch.nn.functional as functional

            scaled = functional.interpolate(square, (240, 240), mode="bilinear", antialias=True)
            yield from scaled.round().byte().permute(0, 2, 3, 1).numpy()

    write_video(path, frames(), frame_rate=RATE)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs real clips and weights")
def test_boundaries_of_glued_real_clips(tmp_path):
    weights = SHARED / "weights"
    adopt = ["adopt", str(weights / "i3d_kinetics400.safetensors"), "--architecture",
             "inception_i3d", "--labels", str(weights / "kinetics400_labels.txt")]  # fmt: skip
    assert main([*adopt, "--out", str(tmp_path / "i3d")]) == 0
    glue(tmp_path / "glued.mp4")
    options = ["--num-frames", "16", "--clip-seconds", "2", "--stride-seconds", "0.5"]
    command = ["predict", str(tmp_path / "i3d"), str(tmp_path / "glued.mp4"), *options, *QUICK]
    timeline = tmp_path / "timeline.json"
    out = ["--out", str(tmp_path / "windows.parquet"), "--timeline", str(timeline)]
    assert main([*command, *out]) == 0
    (video,) = json.loads(timeline.read_text())["videos"]
    segments = video["segments"]
    assert [one["label"] for one in segments] == [label for _, label in GLUED]
    cuts = [number * CLIP_SECONDS for number in range(len(GLUED) + 1)]
    starts = [abs(one["start_seconds"] - cut) for one, cut in zip(segments, cuts, strict=False)]
    ends = [abs(one["end_seconds"] - cut) for one, cut in zip(segments, cuts[1:], strict=True)]
    errors = [*starts[1:], *ends[:-1]]  # the two ends of the video are always right
    print("boundary errors in seconds:", ", ".join(f"{error:.2f}" for error in errors))
    # Measured: 0.25, 1.75, 0.75, 0.25. The network recognises the pancake late, so the limits are
    # wide: they detect a shifted timeline, not one that is a step worse.
    assert sum(errors) / len(errors) <= 1.0  # half a window
    assert max(errors) <= 2.0  # a window


def test_subtitles_are_read_by_ffmpeg(tmp_path):
    odd = "a <b> & -->\nc"
    segments = [Segment(0.0, 1.5, "wave", 0.9), Segment(3725.25, 3726.0, odd, 0.5)]
    one = VideoTimeline("0" * 16, "film.mp4", 4000.0, segments)
    settings = TimelineSettings(smooth_seconds=1.0)
    for suffix in (".srt", ".vtt"):
        out = tmp_path / f"film{suffix}"
        write_timelines(out, [one], settings, one_video=True)
        with av.open(str(out)) as file:
            base = file.streams.subtitles[0].time_base
            packets = [packet for packet in file.demux() if packet.size]
        times = [(packet.pts * base, (packet.pts + packet.duration) * base) for packet in packets]
        assert [tuple(map(float, pair)) for pair in times] == [
            (segment.start_seconds, segment.end_seconds) for segment in segments
        ]
        texts = [html.unescape(bytes(packet).decode()) for packet in packets]
        assert texts == ["wave (0.90)", "a <b> & --> c (0.50)"]
