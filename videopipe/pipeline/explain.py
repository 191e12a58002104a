"""Error messages of stages that fail: which stage, why, and what to do."""

import errno
import os
import shutil
from pathlib import Path

from pretrained_2d.errors import PretrainedError
from videopipe.errors import ConfigError, StageError, VideopipeError
from videopipe.pipeline.jobs import Job

KEPT = "Finished results are kept; the same command resumes."

NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST)


def explained(error: BaseException, job: Job, runs: Path) -> BaseException:
    """The error to show: a known one with its stage and a remedy, any other unchanged."""
    if isinstance(error, KeyboardInterrupt):
        how = "Interrupted" if type(error) is KeyboardInterrupt else "Terminated"
        return type(error)(f"{how} in stage '{job.label}'. {KEPT}")
    if _is_disk_full(error):
        return StageError(
            f"stage '{job.label}': the disk is full ({_free(runs)}). {_how_to_free(runs)} {KEPT}"
        )
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
    """Whether a full disk is the cause, also below an error that a library raised from it."""
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


def _how_to_free(runs: Path) -> str:
    return (
        f"Free some space (old results are the folders in {runs}, safe to delete) or choose another"
        " disk with --runs DIR."
    )
