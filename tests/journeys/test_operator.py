"""The commands of docs/journeys/operator.md print the output shown there."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.journeys.walk import REPOSITORY, VARIABLES, Command, File, Walk, read_page
from tests.servers import bucket
from tests.videopipe.tiny_model import save_image_network
from videopipe.inflation import InflationOptions, inflate_checkpoint

SHARED = Path(os.environ.get("VIDEOPIPE_SHARED", REPOSITORY.parent / "shared")) / "data"
ODD = (
    "ExoPlayer__bear-id3.mp3", "ExoPlayer__roadtrip-vp92-10bit.webm", "decord__corrupted.mp4",
    "decord__video_270.mov", "moviepy__no_duration.webm", "mp4parse-rust__zero_empty_stsc.mp4",
    "opencv_extra__uncompressed.avi", "torchcodec__frame_exceeds_screen.gif",
    "torchcodec__sine_mono_mp3.swf", "torchcodec__var_fps_video.mp4",
    "vision__test_segfault2.mp4", "MANIFEST.tsv",
)  # fmt: skip
# The capabilities by which root may read everything.
OBEYS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small network in place of the one on the page."""
    save_image_network(tmp_path / "flat", 3, labels=("juggling", "bowling", "waving"))
    options = InflationOptions(num_frames=4, clip_seconds=1.0, state=8)
    inflate_checkpoint(tmp_path / "flat", tmp_path / "i3d", options)
    return tmp_path / "i3d"


@pytest.fixture
def videos(tmp_path: Path, tiny_video) -> Path:
    """Videos of all kinds, some broken. Without the shared files: videos of grey frames."""
    root = tmp_path / "videos"
    for name in ("camera1", "odd", "private"):
        (root / name).mkdir(parents=True)
    films = sorted((SHARED / "hmdb51" / "videos").rglob("*.avi"))
    films += sorted((SHARED / "clips").glob("*.*"))
    if not films:
        films = [tiny_video(tmp_path / "made" / f"{i}.mkv", num_frames=30 + i) for i in range(13)]
    for copy in range(3):  # enough to be killed in the middle
        for film in films:
            shutil.copyfile(film, root / "camera1" / f"{film.stem} {copy}{film.suffix}")
    for name in ODD:
        if (SHARED / "odd_videos" / name).is_file():
            shutil.copyfile(SHARED / "odd_videos" / name, root / "odd" / name)
    (root / "odd" / "MANIFEST.tsv").touch()
    (root / "odd" / "empty.mp4").touch()
    (root / "odd" / "letter.mp4").write_text("not a film\n")
    (root / "odd" / "up").symlink_to("..")
    shutil.copyfile(films[0], root / "private" / f"mine{films[0].suffix}")
    (root / "private").chmod(0)
    recording = next(film for film in films if film.suffix == ".mkv")
    (root / "recording.mkv").write_bytes(recording.read_bytes()[:150_000])
    return root


@pytest.fixture
def recording(videos: Path) -> Iterator[None]:
    """A file that grows while the test runs."""
    done = threading.Event()

    def record() -> None:
        while not done.wait(0.1):
            with (videos / "recording.mkv").open("ab") as file:
                file.write(bytes(500))

    thread = threading.Thread(target=record)
    thread.start()
    yield
    done.set()
    thread.join()
    (videos / "private").chmod(0o700)


def permissions_count() -> tuple[bool, tuple[str, ...]]:
    """Whether permissions apply to this user, and the prefix of the command of the shell."""
    if os.geteuid() != 0:
        return True, ()
    if shutil.which(OBEYS[0]) is None:
        return False, ()
    possible = subprocess.run([*OBEYS, "true"], capture_output=True, check=False).returncode == 0
    return (True, OBEYS) if possible else (False, ())


def here(step: Command | File, *, closed: bool) -> Command | File:
    """The page without lines that are not valid for this model, these files or this user."""
    if not isinstance(step, Command):
        return step
    output = step.output
    if (
        "pyarrow.dataset" in step.text
        or step.text == "cat day.vtt"
        or ("pandas" in step.text and not SHARED.is_dir())
    ):
        output = ()  # another network has other probabilities; other files fail for other reasons
    output = tuple(line.replace("intervals", "interval…") for line in output)  # there may be one
    if not closed:
        output = tuple(line for line in output if "Permission denied" not in line)
    return replace(step, text=step.text.replace("sleep 1", "sleep 0.1"), output=output)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_no_video_stops_the_table(
    tmp_path: Path, model: Path, videos: Path, recording: None
) -> None:
    closed, started_by = permissions_count()
    steps = [here(step, closed=closed) for step in read_page("operator.md")]
    films = sorted((videos / "camera1").iterdir())[:5]
    objects = {f"clips/{film.name}": film for film in films} | {"day.mp4": films[0]}
    with bucket("films", objects) as (address, _):
        scratch = {"VIDEOPIPE_SCRATCH": str(tmp_path / "scratch")}
        Walk(tmp_path, {**VARIABLES, **address, **scratch}, started_by=started_by).take(steps)
    assert [file.name for file in (tmp_path / "scratch").iterdir()] == [".lock"]
    assert (tmp_path / "day.vtt").read_text().startswith("WEBVTT")
    assert len(parquet.read_table(tmp_path / "embeddings.parquet")) == 5
    rows = parquet.read_table(tmp_path / "predictions.parquet").to_pylist()
    paths = [row["path"] for row in rows]
    assert len(set(paths)) == len(paths)
    status = {Path(row["path"]).name: row["status"] for row in rows}
    assert status["empty.mp4"] == status["letter.mp4"] == "error"
    assert status["recording.mkv"] == "ok"
    films = [row for row in rows if "camera1" in row["path"]]
    assert len(films) == 3 * 13
    assert {row["status"] for row in films} == {"ok"}
    assert any("private" in path for path in paths) is not closed
