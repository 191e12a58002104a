"""Features of every video: their values, rows of bad files, and resuming after a kill."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from tests.processes import kill, start_paused
from videopipe.dataset.manifest import Manifest, VideoRecord, read_manifest, write_manifest
from videopipe.errors import DataError
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs
from videopipe.probing.feature_file import FEATURES, read_features, read_journals
from videopipe.probing.probe_config import FeaturesConfig
from videopipe.scoring.settings import Execution
from videopipe.stages.features import check, failures, keep
from videopipe.stages.features import run as extract
from videopipe.video.video import open_video

Given = Callable[..., Inputs]
ONE = Execution(device="cpu", workers=1, threads=1)
QUICK = FeaturesConfig(num_frames=4, clip_seconds=1.0, execution=ONE)
HALF_STEP = 2.0**-11  # largest relative error of rounding to float16


def features(config: FeaturesConfig, inputs: Inputs, out: Path) -> dict[str, Any]:
    out.mkdir(exist_ok=True)
    return extract(config, inputs, out)


def recompute(model: Path, record: VideoRecord, times: np.ndarray, **how: bool) -> torch.Tensor:
    """Features of one view of a 2D network, (steps, channels), frame by frame from the file."""
    network, card = load_model(model)
    with open_video(Path(record.path), "auto") as video:
        end = video.duration_seconds
        frames = video.frames_at([min(float(time), end) for time in times])
    frames = card.preprocessing.resize_and_crop(frames)
    frames = frames.flip(-1) if how.get("mirror") else frames
    with torch.inference_mode():
        return network.embed(card.preprocessing.normalize(frames))


def test_rows_are_the_embeddings_of_the_frames_at_the_times(
    make_tiny_model: Callable[..., Path], motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    model = make_tiny_model(tmp_path / "model", ndim=2)
    config = replace(QUICK, views=2, mirror=True)
    summary = features(config, given(model=model, clips=motion_clips), tmp_path / "out")
    found = read_features(tmp_path / "out")
    times = np.load(tmp_path / "out" / "times.npy")
    assert found.features.shape == (22, 4, 4, 16)
    assert found.features.dtype == np.float16
    assert times.shape == (22, 4, 4)
    assert (summary["videos"], summary["failed"], summary["views"]) == (22, 0, 4)
    before = read_manifest(motion_clips)
    assert [(r.path, r.label, r.split) for r in found.manifest.records] == [
        (r.path, r.label, r.split) for r in before.records
    ]
    for row in (0, 13):
        duration = open_video(Path(before.records[row].path), "auto").duration_seconds
        assert times[row, 0, 0] == pytest.approx(0.125)  # the middle of the first quarter second
        assert times[row, 2, -1] == pytest.approx(duration - 0.125, abs=1e-5)
        for view, mirror in enumerate((False, True, False, True)):
            wanted = recompute(model, before.records[row], times[row, view], mirror=mirror)
            kept = torch.from_numpy(found.features[row, view].astype(np.float32))
            torch.testing.assert_close(kept, wanted, rtol=2 * HALF_STEP, atol=1e-5)


def test_a_video_network_gives_one_vector_per_window(
    tiny_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    inputs = given(model=tiny_model, clips=motion_clips)
    config = FeaturesConfig(num_frames=12, execution=ONE, splits=("test",))
    summary = features(config, inputs, tmp_path / "out")
    assert (summary["videos"], summary["steps"]) == (8, 3)
    assert summary["clips"] == "12 frames over 1.5 s"  # three clips of the card's half second
    single = features(replace(config, num_frames=4), inputs, tmp_path / "single")
    assert (single["steps"], single["clips"]) == (1, "4 frames over 0.5 s")
    rate = FeaturesConfig(frame_rate=8.0, clip_seconds=1.5, execution=ONE, splits=("test",))
    assert features(rate, inputs, tmp_path / "rate")["clips"] == "12 frames over 1.5 s"
    with pytest.raises(DataError, match=r"num_frames is 6; .* expected a multiple of 4"):
        features(FeaturesConfig(num_frames=6, execution=ONE), inputs, tmp_path / "bad")


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("convnext_tiny", {"depths": [1] * 4, "widths": [4] * 4, "image_size": 32}),
        ("timm/test_vit", {"image_size": 32}),
        ("torchvision/resnet18", {}),
    ],
)
@pytest.mark.parametrize("num_classes", [0, 3])
def test_any_network_with_or_without_classes(
    architecture: str, options: dict[str, Any], num_classes: int,
    motion_clips: Path, given: Given, tmp_path: Path,
) -> None:  # fmt: skip
    card = ModelCard(
        architecture=architecture,
        options={**options, "num_classes": num_classes},
        preprocessing=Preprocessing(image_size=32, resize=32),
    )
    save_checkpoint(tmp_path / "model", build(architecture, **card.options), card)
    inputs = given(model=tmp_path / "model", clips=motion_clips)
    config = replace(QUICK, num_frames=2, splits=("val",))
    summary = features(config, inputs, tmp_path / "out")
    assert (summary["videos"], summary["failed"]) == (6, 0)
    assert summary["channels"] > 3
    assert np.abs(read_features(tmp_path / "out").features).max() > 0


@pytest.fixture
def mixed_clips(video_folder: Path, tmp_path: Path) -> Path:
    """A manifest of twelve good videos, two bad files, and one that was left out before."""
    paths = sorted(p for p in video_folder.rglob("*") if p.is_file() and p.stem != "truncated")
    records = [VideoRecord(path=str(path), label=0, split="train") for path in paths]
    gone = VideoRecord(path="gone.mp4", label=0, split="train", status="error", reason="no frames")
    manifest = Manifest(labels=("any",), records=(*records, gone), root=video_folder)
    write_manifest(tmp_path / "clips", manifest)
    return tmp_path / "clips"


def test_bad_files_are_rows_with_a_reason(
    mixed_clips: Path, make_tiny_model: Callable[..., Path], given: Given, tmp_path: Path
) -> None:
    model = make_tiny_model(tmp_path / "model", ndim=2)
    config = replace(QUICK, max_failed=0.5)
    summary = features(config, given(model=model, clips=mixed_clips), tmp_path / "out")
    assert (summary["videos"], summary["failed"]) == (15, 3)
    found = read_features(tmp_path / "out")
    bad = {Path(r.path).name: r.reason for r in found.manifest.records if not r.usable}
    assert bad["empty.mp4"] == "the file is empty"
    assert bad["gone.mp4"] == "no frames"
    assert set(bad) == {"empty.mp4", "text.avi", "gone.mp4"}
    times = np.load(tmp_path / "out" / "times.npy")
    for row, record in enumerate(found.manifest.records):
        assert np.any(found.features[row]) == record.usable
        assert np.isfinite(times[row]).all() == record.usable


def test_too_many_failures_stop_the_stage_and_only_those_are_tried_again(
    mixed_clips: Path, make_tiny_model: Callable[..., Path], given: Given, tmp_path: Path
) -> None:
    inputs = given(model=make_tiny_model(tmp_path / "model", ndim=2), clips=mixed_clips)
    out = tmp_path / "out"
    with pytest.raises(DataError, match=r"3 of 15 videos have no features, more than max_failed"):
        features(QUICK, inputs, out)
    assert not (out / "features.json").exists()
    done = [i for i, line in read_journals(out).items() if line["status"] == "ok"]
    mark(out, done[0])
    assert features(replace(QUICK, max_failed=0.2), inputs, out)["failed"] == 3
    assert is_marked(out, done[0])


def test_a_retry_runs_over_the_failed_videos_only(
    mixed_clips: Path, noisy_video: Callable[..., Path], make_tiny_model: Callable[..., Path],
    given: Given, tmp_path: Path,
) -> None:  # fmt: skip
    manifest = read_manifest(mixed_clips)
    video = noisy_video(tmp_path / "videos" / "later.mp4", 5)
    whole = video.read_bytes()
    video.write_bytes(b"")
    records = (*manifest.records, VideoRecord(path=str(video), label=0, split="train"))
    write_manifest(mixed_clips, replace(manifest, records=records))
    inputs = given(model=make_tiny_model(tmp_path / "model", ndim=2), clips=mixed_clips)
    config = replace(QUICK, max_failed=0.5)
    first, second = tmp_path / "first", tmp_path / "second"
    assert features(config, inputs, first)["failed"] == 4
    names = [(Path(one.item).name, one.reason) for one in failures(first)]
    assert ("later.mp4", "the file is empty") in names
    assert {name for name, _ in names} == {"empty.mp4", "text.avi", "later.mp4"}
    video.write_bytes(whole)
    mark(first, 1)
    second.mkdir()
    keep(config, inputs, first, second)
    assert features(config, inputs, second)["failed"] == 3
    assert is_marked(second, 1)
    assert np.any(read_features(second).features[-1])
    times = [np.load(folder / "times.npy") for folder in (first, second)]
    np.testing.assert_array_equal(times[0][:-1], times[1][:-1])


def mark(out: Path, row: int) -> None:
    """Overwrite a row, which stays if the video is not run again."""
    np.load(out / FEATURES, mmap_mode="r+")[row] = 7


def is_marked(out: Path, row: int) -> bool:
    return bool((np.load(out / FEATURES)[row] == 7).all())


def test_values_beyond_float16_are_failures(
    make_tiny_model: Callable[..., Path], motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    network, card = load_model(make_tiny_model(tmp_path / "model", ndim=2))
    with torch.no_grad():
        network.norm.weight.fill_(1e6)
    save_checkpoint(tmp_path / "large", network, card)
    with pytest.raises(DataError, match=r"exceed the range of float16 \(65504\) \(22\)"):
        features(QUICK, given(model=tmp_path / "large", clips=motion_clips), tmp_path / "out")


def test_an_unknown_split_is_named(
    tiny_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    config = replace(QUICK, splits=("train", "valid"))
    inputs = given(model=tiny_model, clips=motion_clips)
    for attempt in (
        partial(features, config, inputs, tmp_path / "out"),
        partial(check, config, inputs),
    ):
        with pytest.raises(DataError, match=r"splits names valid, .* 8 test, 8 train, 6 val"):
            attempt()


PROGRAM = """
import sys
from pathlib import Path
from videopipe.dataset.manifest import read_manifest
from videopipe.probing import feature_file
from videopipe.probing.probe_config import FeaturesConfig
from videopipe.probing.extraction import extract_features
from videopipe.scoring.settings import Execution
if __name__ == "__main__":
    model, clips, out = map(Path, sys.argv[1:4])
    feature_file.FLUSH_ROWS = 3
    config = FeaturesConfig(num_frames=4, clip_seconds=1.0,
                            execution=Execution(device="cpu", workers=2, threads=1))
    extract_features(config, model, read_manifest(clips), out)
"""


def test_a_kill_in_the_middle_changes_no_byte(
    make_tiny_model: Callable[..., Path], noisy_video: Callable[..., Path],
    given: Given, tmp_path: Path,
) -> None:  # fmt: skip
    model = make_tiny_model(tmp_path / "model", ndim=2)
    paths = [noisy_video(tmp_path / "videos" / f"{n:03}.mp4", n) for n in range(9)]
    records = tuple(VideoRecord(path=str(path), label=0, split="train") for path in paths)
    manifest = Manifest(labels=("any",), records=records, root=tmp_path / "videos")
    write_manifest(tmp_path / "clips", manifest)
    inputs = given(model=model, clips=tmp_path / "clips")
    features(QUICK, inputs, tmp_path / "whole")

    out, program = tmp_path / "killed", tmp_path / "program.py"
    out.mkdir()
    program.write_text(PROGRAM)
    target = "videopipe.probing.feature_file:FeatureWriter.flush"
    kill(start_paused(target, 1, [program, model, tmp_path / "clips", out]))
    done = read_journals(out)
    assert 0 < len(done) < len(records)

    shutil.copytree(out, tmp_path / "marked")
    features(QUICK, inputs, out)
    names = {path.name for path in out.iterdir()}
    assert names == {path.name for path in (tmp_path / "whole").iterdir()}
    for name in names - {"backbone"}:
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

    marked = tmp_path / "marked"
    row = next(iter(done))
    mark(marked, row)
    features(QUICK, inputs, marked)
    assert is_marked(marked, row)  # it was not run a second time
