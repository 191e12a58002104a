"""A time limit for each training clip, and errors that name the video.

Training clips are decoded in the workers of a DataLoader, or in the training process itself. A file
that makes its decoder hang would stop the training without an error.
"""

import faulthandler
import importlib
import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from pretrained_2d.randomness import Sample
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.errors import DataError, DecodeError

REMEDY = (
    "`videopipe check --full` finds such files; repair or remove it. The training is kept and "
    "resumes with the next run"
)
SECONDS_TO_END = 10.0  # that a process takes to end after its connection is lost
_queues: dict[int, queue.SimpleQueue[Any]] = {}  # of the decoding thread, by process


class ClipError(DataError):
    """A training clip cannot be decoded; raised in a worker of a DataLoader."""


class LimitedClips(Dataset[tuple[Tensor, int | Tensor]]):
    """The clips of a data set; one that takes longer than `timeout_seconds` is a `ClipError`.

    A thread decodes while the caller waits. A decoder that hangs with the interpreter lock held
    stops the waiting too; in a DataLoader worker the process then ends after twice the time, and
    the file named by its process id in `notes` names the video.
    """

    def __init__(self, clips: ClipDataset, timeout_seconds: float, notes: Path) -> None:
        self.clips, self.timeout_seconds, self.notes = clips, timeout_seconds, notes

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: Sample | int) -> tuple[Tensor, int | Tensor]:
        item = index.item if isinstance(index, Sample) else int(index)
        path = self.clips.records[item].path
        in_worker = get_worker_info() is not None
        if in_worker:
            (self.notes / str(os.getpid())).write_bytes(os.fsencode(path))
            faulthandler.dump_traceback_later(2 * self.timeout_seconds, exit=True)
        try:
            return self._decode(index, path)
        except (DecodeError, OSError) as error:
            raise ClipError(f"training clip: {error}. {REMEDY}") from error
        finally:
            if in_worker:
                faulthandler.cancel_dump_traceback_later()

    def _decode(self, index: Sample | int, path: str) -> tuple[Tensor, int | Tensor]:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        _decoding_thread().put((self.clips, index, answers))
        try:
            answer = answers.get(timeout=self.timeout_seconds)
        except queue.Empty:
            _queues.clear()  # the thread is lost
            raise ClipError(
                f"training clip: {path} was not decoded within {self.timeout_seconds:g} s "
                f"(timeout_seconds). {REMEDY}"
            ) from None
        if isinstance(answer, BaseException):
            raise answer
        clip: tuple[Tensor, int | Tensor] = answer
        return clip


def _decoding_thread() -> "queue.SimpleQueue[Any]":
    """The queue of this process's decoding thread, which is started at the first call."""
    if os.getpid() not in _queues:
        importlib.import_module("videopipe.video.backends.pyav")  # takes seconds on a busy machine
        tasks = _queues[os.getpid()] = queue.SimpleQueue()
        threading.Thread(target=_decode_all, args=(tasks,), daemon=True).start()
    return _queues[os.getpid()]


def _decode_all(tasks: "queue.SimpleQueue[Any]") -> None:
    while True:
        clips, index, answers = tasks.get()
        try:
            answers.put(clips[index])
        except BaseException as error:  # noqa: BLE001 - raised again where the clip is wanted
            answers.put(error)


@contextmanager
def clip_errors(notes: Path) -> Iterator[None]:
    """Turn the errors of DataLoader workers into a `DataError` that names the video.

    Raises:
        DataError: a clip could not be decoded, or a worker died while it decoded one.
    """
    try:
        yield
    except ClipError as error:  # a DataLoader adds the traceback of its worker
        raise DataError(str(error).rpartition("ClipError: ")[2].strip()) from None
    except (RuntimeError, OSError, EOFError) as error:
        lost = _notes_of_ended_processes(notes)
        if not lost:
            raise
        paths = ", ".join(os.fsdecode(note.read_bytes()) for note in lost)
        raise DataError(
            f"training clip: the process that decoded {paths} hung or crashed "
            f"({type(error).__name__}: {error}). {REMEDY}"
        ) from error


def _notes_of_ended_processes(notes: Path) -> list[Path]:
    """The notes of workers that ended; a worker loses its connections shortly before it ends."""
    give_up = time.monotonic() + SECONDS_TO_END
    while True:
        ended = [note for note in notes.iterdir() if not _is_running(int(note.name))]
        if ended or time.monotonic() > give_up:
            return ended
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
