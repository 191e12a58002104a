"""Generate a small data set: videos that differ by motion only, and images of the same shapes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pretrained_2d.setting import setting
from videopipe.pipeline.stage import Inputs, Kind, Stage, Summary

Motion = Literal["left", "right", "up", "down", "clockwise", "counter_clockwise", "grow", "shrink"]


@dataclass(frozen=True, kw_only=True)
class GenerateConfig:
    """The number and size of the videos and images."""

    motions: tuple[Motion, ...] = setting(
        ("left", "right", "up", "down", "clockwise", "counter_clockwise", "grow", "shrink"),
        "the classes of the videos",
    )
    train_videos: int = setting(60, "per class")
    val_videos: int = setting(12, "per class")
    test_videos: int = setting(12, "per class")
    unseen_videos: int = setting(16, "unlabelled videos in unseen/, in total")
    train_images: int = setting(150, "stills per shape")
    val_images: int = setting(30, "stills per shape")
    size_pixels: int = setting(64, "height and width", unit="pixels")
    frame_rates: tuple[float, ...] = setting(
        (12.0, 15.0, 24.0), "one is chosen at random for each video", unit="frames per second"
    )
    shortest_seconds: float = setting(1.5, "duration of a video, at least", unit="seconds")
    longest_seconds: float = setting(2.5, "duration of a video, at most", unit="seconds")
    seed: int = setting(0, "random seed")

    def __post_init__(self) -> None:
        if not self.motions or len(set(self.motions)) < len(self.motions):
            raise ValueError("motions must name at least one class, each once")
        if self.size_pixels < 16 or self.size_pixels % 2:
            raise ValueError(f"size_pixels must be even and at least 16, got {self.size_pixels}")
        if not self.frame_rates or min(self.frame_rates) < 1:
            raise ValueError(f"frame_rates must be 1 or more, got {self.frame_rates}")
        if not 0 < self.shortest_seconds <= self.longest_seconds:
            raise ValueError(
                f"shortest_seconds ({self.shortest_seconds}) must be above 0 and at most"
                f" longest_seconds ({self.longest_seconds})"
            )
        for name in ("train_videos", "val_videos", "test_videos", "unseen_videos"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")


class _File(NamedTuple):
    """One file to generate: its path and content."""

    path: str
    motion: Motion | None  # None: a still
    shape: str | None  # None: any


def run(config: GenerateConfig, inputs: Inputs, out: Path) -> Summary:
    """Write images/, videos/, unseen/ and unseen_labels.csv; existing files are kept."""
    from pretrained_2d.atomic import write_text
    from videopipe.system.progress import progress

    files = list(_files(config))
    for leftover in out.rglob(".writing-*"):  # of an attempt that was killed while writing
        leftover.unlink()
    with progress("generating", total=len(files), unit="files") as bar:
        missing = [file for file in files if not (out / file.path).exists()]
        bar.resume(len(files) - len(missing))
        for file in missing:
            _write(file, config, out)
            bar.advance()
    unseen = [file for file in files if file.path.startswith("unseen/")]
    rows = [f"{Path(file.path).name},{file.motion}" for file in unseen]
    write_text(out / "unseen_labels.csv", "\n".join(["file,motion", *rows]) + "\n")
    return {
        "videos": sum(file.motion is not None for file in files),
        "images": sum(file.motion is None for file in files),
        "classes": len(config.motions),
    }


def _files(config: GenerateConfig) -> Iterator[_File]:
    from videopipe.dataset.moving_shapes import SHAPES

    images = {"train": config.train_images, "val": config.val_images}
    videos = {
        "train": config.train_videos,
        "val": config.val_videos,
        "test": config.test_videos,
    }
    for split, count in images.items():
        for shape in SHAPES:
            for index in range(count):
                yield _File(f"images/{split}/{shape}/{index:05}.png", None, shape)
    for split, count in videos.items():
        for motion in config.motions:
            for index in range(count):
                yield _File(f"videos/{split}/{motion}/{index:05}.mp4", motion, None)
    for index in range(config.unseen_videos):
        motion = config.motions[index * 5 % len(config.motions)]
        yield _File(f"unseen/{index:05}.mp4", motion, None)


def _write(file: _File, config: GenerateConfig, out: Path) -> None:
    """Generate one file; its random content depends on its name and the seed only."""
    from dataclasses import replace

    import numpy as np
    from PIL import Image

    from pretrained_2d.randomness import derive_seed
    from videopipe.dataset.moving_shapes import draw_scene, frames_of, picture_of
    from videopipe.video.writing import write_video

    random = np.random.default_rng(derive_seed(config.seed, file.path))
    scene = draw_scene(random, config.size_pixels)
    if file.shape is not None:
        scene = replace(scene, shape=file.shape)
    path = out / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".writing-{path.name}")
    if file.motion is None:
        still = picture_of(scene, scene.x, scene.y, scene.angle, scene.log_size)
        Image.fromarray(still).save(beside)
    else:
        frame_rate = float(random.choice(config.frame_rates))
        seconds = random.uniform(config.shortest_seconds, config.longest_seconds)
        num_frames = max(round(seconds * frame_rate), 2)
        frames = frames_of(scene, file.motion, num_frames=num_frames, frame_rate=frame_rate)
        write_video(beside, frames, frame_rate=frame_rate)
    beside.rename(path)


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    counts = f"{summary['videos']:,} videos of {summary['classes']} motions"
    return f"{counts} and {summary['images']:,} images"


STAGE = Stage(config=GenerateConfig, run=run, version=3, output=Kind.DATA, outcome=in_words)
