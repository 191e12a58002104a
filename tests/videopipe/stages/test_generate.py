"""The generated data set: real files, the same for the same seed, resumable."""

from pathlib import Path

import av
import pytest
from PIL import Image

from videopipe.pipeline.stage import Inputs
from videopipe.stages.generate import GenerateConfig, run

SMALL = GenerateConfig(
    motions=("left", "grow"),
    train_videos=2,
    val_videos=1,
    test_videos=1,
    unseen_videos=3,
    train_images=2,
    val_images=1,
    size_pixels=32,
)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    summary = run(SMALL, Inputs({}), out)
    assert summary == {"videos": 11, "images": 12, "classes": 2}
    return out


def test_the_layout_is_the_one_that_other_stages_read(made: Path) -> None:
    names = list(files(made))
    assert names[:2] == ["images/train/bar/00000.png", "images/train/bar/00001.png"]
    assert [name for name in names if name.startswith("videos/train")] == [
        "videos/train/grow/00000.mp4",
        "videos/train/grow/00001.mp4",
        "videos/train/left/00000.mp4",
        "videos/train/left/00001.mp4",
    ]
    assert (made / "unseen_labels.csv").read_text().splitlines() == [
        "file,motion",
        "00000.mp4,left",
        "00001.mp4,grow",
        "00002.mp4,left",
    ]


def test_files_are_what_they_say(made: Path) -> None:
    assert Image.open(made / "images/val/hook/00000.png").size == (32, 32)
    for path in made.rglob("*.mp4"):
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            frames = sum(1 for _ in container.decode(stream))
            rate = float(stream.average_rate or 0)
        assert stream.codec_context.name == "h264"
        assert rate in SMALL.frame_rates
        assert 1.4 < frames / rate < 2.6


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    made: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    run(SMALL, Inputs({}), tmp_path / "same")
    assert files(tmp_path / "same") == files(made)
    run(replace(SMALL, seed=1), Inputs({}), tmp_path / "other")
    other = files(tmp_path / "other")
    assert other.keys() == files(made).keys()
    assert not [n for n in other if n.endswith((".mp4", ".png")) and other[n] == files(made)[n]]


def test_an_interrupted_run_resumes(made: Path, tmp_path: Path) -> None:
    run(SMALL, Inputs({}), tmp_path)
    (tmp_path / "videos/val/left/00000.mp4").unlink()
    (tmp_path / "videos/val/left/.writing-00000.mp4").write_bytes(b"half")
    kept = tmp_path / "videos/val/grow/00000.mp4"
    before = kept.stat().st_mtime_ns
    run(SMALL, Inputs({}), tmp_path)
    assert files(tmp_path) == files(made)
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"motions": ()}, "motions must name at least one class, each once"),
        ({"size_pixels": 33}, "size_pixels must be even and at least 16, got 33"),
        ({"frame_rates": (0.5,)}, r"frame_rates must be 1 or more, got \(0.5,\)"),
        ({"shortest_seconds": 3.0}, "shortest_seconds .3.0. must be above 0 and at most"),
        ({"train_videos": -1}, "train_videos must be 0 or more, got -1"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GenerateConfig(**settings)  # type: ignore[arg-type]
