"""`evaluate` gives the scores and metrics that PyAV, torchvision and numpy alone give.

Scores agree within 1e-5. The network computes in float32 on the same pixels; the two ways differ
in the rounding of the normalisation only.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import load_checkpoint, save_checkpoint
from pretrained_2d.networks.backbones import build
from tests.videopipe.evaluation.plain_evaluation import Protocol, plain_metrics, plain_scores
from videopipe.dataset.manifest import Manifest, VideoRecord, write_manifest
from videopipe.evaluation.score_table import read_metrics, read_scores
from videopipe.pipeline.stage import Inputs, Result
from videopipe.scoring.settings import Execution, Scoring
from videopipe.stages.evaluate import EvaluateConfig, run

LABELS = tuple("abcdefg")  # more than five, so that top-5 can be wrong
ONE = Execution(device="cpu", workers=1, threads=1)


def save_model(folder: Path, *, ndim: int, preprocessing: Preprocessing) -> Path:
    """A network of random weights whose scores differ from video to video."""
    torch.manual_seed(5)
    options = {
        "num_classes": len(LABELS), "depths": (1, 1, 1, 1), "widths": (8, 8, 16, 16),
        "image_size": 32, "layer_scale": 1.0, **({"num_frames": 4} if ndim == 3 else {}),
    }  # fmt: skip
    network = build("convnext_tiny", ndim=ndim, **options)
    with torch.no_grad():
        network.head.weight.normal_()
    card = ModelCard(
        architecture="convnext_tiny", options=options, ndim=ndim, labels=LABELS,
        preprocessing=preprocessing, num_frames=4, clip_seconds=0.7,
    )  # fmt: skip
    save_checkpoint(folder, network, card)
    return folder


PLAIN = Protocol(num_frames=4, clip_seconds=0.7, resize=36, image_size=32)
CASES: dict[str, tuple[Protocol, Scoring]] = {
    "windows": (PLAIN, Scoring()),
    "images": (replace(PLAIN, per_frame=True, bicubic=True), Scoring()),
    "crops": (
        replace(PLAIN, clips=3, crops=3, average="probabilities", num_frames=5, clip_seconds=0.45),
        Scoring(clips=3, crops=3, average="probabilities", num_frames=5, clip_seconds=0.45),
    ),
}


def compare(videos: Sequence[Path], targets: Sequence[int], case: str, folder: Path) -> None:
    protocol, scoring = CASES[case]
    preprocessing = Preprocessing(
        image_size=protocol.image_size,
        resize=protocol.resize,
        interpolation="bicubic" if protocol.bicubic else "bilinear",
    )
    ndim = 2 if protocol.per_frame else 3
    model = save_model(folder / "model", ndim=ndim, preprocessing=preprocessing)
    records = [
        VideoRecord(path=str(path), label=target, split="test")
        for path, target in zip(videos, targets, strict=True)
    ]
    manifest = Manifest(labels=LABELS, records=tuple(records), root=videos[0].parent)
    write_manifest(folder / "clips", manifest)
    inputs = Inputs({name: [Result(folder / name, name)] for name in ("model", "clips")})
    out = folder / "out"
    out.mkdir()
    run(EvaluateConfig(scoring=scoring, execution=ONE), inputs, out)

    network = load_checkpoint(model)[0].eval()
    expected = np.stack([plain_scores(path, network, protocol) for path in videos])
    table = read_scores(out)
    assert [Path(path).name for path in table.paths] == [path.name for path in videos]
    np.testing.assert_allclose(table.scores, expected, rtol=0, atol=1e-5)
    assert table.scores.argmax(1).tolist() == expected.argmax(1).tolist()
    assert np.ptp(expected, axis=0).max() > 0.05, "scores that are all alike would prove nothing"
    ours, theirs = read_metrics(out), plain_metrics(expected, targets)
    assert ours["confusion"] == theirs["confusion"]
    assert ours["mean_class"] == pytest.approx(theirs["mean_class"])
    assert ours["top1"]["value"] == pytest.approx(theirs["top1"])
    assert ours["top1"]["low"] == pytest.approx(theirs["low"], abs=1e-9)
    assert ours["top1"]["high"] == pytest.approx(theirs["high"], abs=1e-9)
    assert ours["top5"]["value"] == pytest.approx(theirs["top5"])
    for name in ("log_loss", "expected_error"):
        assert ours["calibration"][name] == pytest.approx(theirs[name], abs=1e-4), name
    assert json.loads((out / "metrics.json").read_text())["videos"] == len(videos)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, noisy_video: Callable[..., Path]) -> list:
    """Shorter than a clip, a clip and a rest, upright; at 15 frames per second."""
    folder = tmp_path_factory.mktemp("generated")
    lengths = (7, 10, 16, 21, 30, 33, 45, 12)
    return [noisy_video(folder / f"{n}.mp4", n, length) for n, length in enumerate(lengths)]


@pytest.mark.parametrize("case", CASES)
def test_generated_videos(case: str, generated: list[Path], tmp_path: Path) -> None:
    compare(generated, [0, 1, 2, 3, 4, 5, 6, 0], case, tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_real_videos(case: str, shared: Path, tmp_path: Path) -> None:
    """AVI with and without B-frames, Matroska in milliseconds, MP4; 25 to 30 frames per second."""
    names = ("v_Bowling_g05_c06.avi", "v_SoccerJuggling_g23_c01.avi", "flipping_a_pancake.mkv")
    digits = sorted((shared / "data/digits10/test").glob("*/*.mp4"))[::97]
    videos = [*(shared / "data/clips" / name for name in names), *digits]
    compare(videos, [number % len(LABELS) for number in range(len(videos))], case, tmp_path)
