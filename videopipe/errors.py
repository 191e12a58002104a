"""The errors of the application. `cli.py` turns them into exit codes."""

from collections.abc import Sequence
from pathlib import Path


class VideopipeError(Exception):
    """A problem that a user can cause and fix; shown as one message, exit code 1."""


class ConfigError(VideopipeError):
    """All problems of one configuration, each with its position; exit code 2."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class DataError(VideopipeError):
    """A file or folder of data cannot be used as given."""


class DecodeError(DataError):
    """A video cannot be decoded, with the file and the reason."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        self.reason = reason
        super().__init__(f"{path}: {reason}")

    def __reduce__(self) -> tuple[type["DecodeError"], tuple[Path, str]]:
        return type(self), (self.path, self.reason)


class StageError(VideopipeError):
    """A stage of a pipeline failed; the cause is chained."""


def first_line(error: BaseException) -> str:
    """The first line of an error message, for a message of ours; the type if it is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
