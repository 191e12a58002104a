"""What went wrong in a stage, said so that a person can mend it."""

import errno
import os
import shutil
from pathlib import Path

from pretrained_2d.errors import PretrainedError
from videopipe.errors import ConfigError, StageError, VideopipeError
from videopipe.pipeline import Job

KEPT = "What is finished is kept; the same command goes on from there."

NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST)


def explained(error: BaseException, job: Job, runs: Path) -> BaseException:
    """The error to show: known ones name their stage and the way out, others pass as they are."""
    if isinstance(error, KeyboardInterrupt):
        how = "Interrupted" if type(error) is KeyboardInterrupt else "Terminated"
        return type(error)(f"{how} in stage '{job.label}'. {KEPT}")
    if _is_disk_full(error):
        return StageError(f"stage '{job.label}': the disk is full ({_free(runs)}). {_room(runs)}")
    if isinstance(error, ConfigError | StageError):
        return error
    if isinstance(error, VideopipeError | PretrainedError):
        return StageError(f"stage '{job.label}' failed: {error}\n{KEPT}")
    if isinstance(error, OSError) and error.errno in NOT_WRITABLE:
        words = f"stage '{job.label}': {error.strerror}: '{error.filename}'."
        if Path(str(error.filename)).absolute().is_relative_to(runs.absolute()):
            words += f" Make the runs folder {runs} writable or choose another one with --runs DIR."
        return StageError(f"{words} {KEPT}")
    error.add_note(f"in stage '{job.label}', result {runs / job.folder_name}")
    return error


def _is_disk_full(error: BaseException | None) -> bool:
    """Whether the disk is the cause, also where a library has wrapped it in an error of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if os.strerror(errno.ENOSPC) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _free(runs: Path) -> str:
    try:
        return f"{shutil.disk_usage(runs).free / 1e9:.1f} GB free below {runs}"
    except OSError:
        return f"below {runs}"


def _room(runs: Path) -> str:
    return (
        f"Make room (old results are the folders in {runs}, safe to delete) or choose another disk"
        f" with --runs DIR. {KEPT}"
    )
