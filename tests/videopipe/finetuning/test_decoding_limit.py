"""A training clip that hangs or crashes its decoder ends the training with the video's name."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.processes import ENVIRONMENT, LONGEST_SECONDS
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.errors import DataError
from videopipe.finetuning.decoding_limit import LimitedClips, clip_errors
from videopipe.video.writing import write_video

# The decoder of the second clip sleeps, hangs with the interpreter lock held, or crashes.
PROGRAM = """
import ctypes, os, signal, sys, time
from pathlib import Path
from torch.utils.data import DataLoader
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.errors import DataError
from videopipe.finetuning.decoding_limit import LimitedClips, clip_errors

class BadDecoder(ClipDataset):
    how = ""
    def __getitem__(self, index):
        if index == 1:
            if self.how == "sleeps":
                time.sleep(1000)
            elif self.how == "holds the lock":
                ctypes.PyDLL(None).sleep(1000)
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().__getitem__(index)

if __name__ == "__main__":
    folder, notes, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    workers = int(sys.argv[4])
    records = find_dataset(folder).records
    clips = BadDecoder(records, num_frames=2, clip_seconds=0.5)
    clips.how = how
    context = "forkserver" if workers else None
    loader = DataLoader(LimitedClips(clips, 8.0, notes), batch_size=None, num_workers=workers,
                        multiprocessing_context=context)
    try:
        with clip_errors(notes):
            for clip, label in loader:
                print(tuple(clip.shape), flush=True)
    except DataError as error:
        print("named" if Path(records[1].path).name in str(error) else "unnamed", error)
        sys.exit(7)
"""


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("videos")
    (root / "walk").mkdir()
    for name in "abc":
        frames = (np.full((32, 32, 3), 20 * level, dtype=np.uint8) for level in range(12))
        write_video(root / "walk" / f"{name}.mp4", frames, frame_rate=12.0)
    return root


@pytest.mark.parametrize(
    ("how", "workers"),
    [
        ("sleeps", 0),
        pytest.param("holds the lock", 1, marks=pytest.mark.slow),
        pytest.param("crashes", 1, marks=pytest.mark.slow),
    ],
)
def test_a_decoder_that_hangs_ends_the_training_with_its_name(
    how: str, workers: int, videos: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "notes").mkdir()
    arguments = [videos, tmp_path / "notes", how, str(workers)]
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 7, done.stderr
    said = done.stdout.splitlines()[-1]  # after the clips before it, as far as they were fetched
    assert said.startswith("named training clip: ")
    assert "videopipe check --full" in said


def test_a_clip_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    for name in ("a", "b"):
        (tmp_path / "walk" / f"{name}.mp4").write_bytes(b"no video")
    records = find_dataset(tmp_path).records
    clips = LimitedClips(ClipDataset(records, num_frames=2, clip_seconds=1.0), 60.0, tmp_path)
    with pytest.raises(DataError, match=r"training clip: .*a\.mp4"), clip_errors(tmp_path):
        clips[0]


def test_a_worker_that_ends_after_its_connections_is_named(tmp_path: Path) -> None:
    # The training process detects the lost connection before the worker has ended.
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    threading.Thread(target=worker.wait).start()
    (tmp_path / str(worker.pid)).write_text("bad.mp4")
    with pytest.raises(DataError, match=r"decoded bad\.mp4 hung or crashed"), clip_errors(tmp_path):
        raise ConnectionRefusedError("the worker closed its socket")


def test_clips_are_those_of_the_data_set(videos: Path, tmp_path: Path) -> None:
    records = find_dataset(videos).records
    clips = ClipDataset(records, num_frames=4, clip_seconds=1.0, seed=3)
    limited = LimitedClips(clips, 60.0, tmp_path)
    assert len(limited) == len(clips)
    for index in range(3):
        assert limited[index][0].equal(clips[index][0])
