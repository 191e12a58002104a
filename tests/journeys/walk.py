"""Run the commands of a page in one shell, and compare the output with that on the page.

A page is read from top to bottom:

- a `console` block has commands after `$ ` (more lines of one after `> `), each with its output;
- any other block that begins with a comment of a file name (`# mine.yaml`) is written to that file.

Each line of output must appear in the same order. Numbers, fingerprints and blanks may differ, `…`
stands for anything. `^C` interrupts the command once the lines above it have been seen, and
`Killed` ends it with SIGKILL.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = REPOSITORY / "docs" / "journeys"
STOPS = {"^C": signal.SIGINT, "Killed": signal.SIGKILL}
LONGEST_SECONDS = 540.0  # for one command, on a busy machine
END = "== end of the command:"
# One thread each: the tests run side by side. The shell finds `videopipe` beside the interpreter.
VARIABLES = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": str(REPOSITORY),
    "OMP_NUM_THREADS": "1",
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# An exponent has two digits: the name `…-19b8e-0000` of a shard has none.
NUMBER = re.compile(r"[0-9a-f]{12}|\d+(?:[.,:]\d+)*(?:e[-+]\d\d(?!\d))?")


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    text: str
    output: tuple[str, ...] = ()
    stop: signal.Signals | None = None  # sent after the lines of `output` that stand above it
    stop_after: int = 0


@dataclass(frozen=True)
class File:
    """A block of a page that is a file."""

    name: str
    text: str


def read_page(name: str) -> list[Command | File]:
    """The commands and files of a page, in order."""
    found: list[Command | File] = []
    for language, text in BLOCK.findall((PAGES / name).read_text()):
        title = re.match(r"# ([\w./-]+\.\w+)\n", text)
        if language == "console":
            found += read_console(text)
        elif title:
            found.append(File(title[1], text))
    return found


def read_console(text: str) -> list[Command]:
    """`$ command`, `> more of it`, and the lines that it printed."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif line.startswith("> ") and not found[-1].output:
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{line[2:]}")
        elif line in STOPS:
            seen = len(found[-1].output)
            found[-1] = replace(found[-1], stop=STOPS[line], stop_after=seen)
        elif line.strip() not in ("", "…"):
            found[-1] = replace(found[-1], output=(*found[-1].output, line))
    return found


@dataclass
class Walk:
    """A shell in a folder that runs the steps of a page one after the other."""

    folder: Path
    variables: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)  # a path here -> its name on the page
    started_by: tuple[str, ...] = ()  # a program that starts the shell

    def take(self, steps: list[Command | File]) -> None:
        """Run every step. AssertionError shows the line that is missing and the actual output."""
        with subprocess.Popen(
            [*self.started_by, "bash"], cwd=self.folder, env={**os.environ, **self.variables},
            text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, errors="replace",
        ) as self.shell:  # fmt: skip
            try:
                for step, following in zip(steps, [*steps[1:], None], strict=True):
                    if isinstance(step, File):
                        (self.folder / step.name).write_text(step.text)
                        continue
                    asked = isinstance(following, Command) and following.text == "echo $?"
                    status = self._run(step)
                    assert step.stop or asked or status == 0, f"exit status {status}: {step.text}"
            finally:
                os.killpg(self.shell.pid, signal.SIGKILL)

    def _run(self, command: Command) -> int:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        text = f'(exit "${{status:-0}}")\n{{ {command.text}\n}} < /dev/null\nstatus=$?\n'
        self.shell.stdin.write(f'{text}echo; echo "{END} $status"\n')
        missing, seen = list(command.output), []
        guard = threading.Timer(LONGEST_SECONDS, self._stop, [signal.SIGKILL])
        guard.start()
        for line in self.shell.stdout:
            if line.startswith(END):
                guard.cancel()
                shown = "\n".join(["", f"$ {command.text}", *seen])
                assert not missing, f"the output lacks a line of the page: {missing[0]!r}{shown}"
                return int(line.split()[-1])
            seen.append(line.rstrip("\n"))
            if missing and self._fits(missing[0], seen[-1]):
                missing.pop(0)
                if command.stop and len(command.output) - len(missing) == command.stop_after:
                    self._stop(command.stop)
        shown = "\n".join(seen)
        raise AssertionError(f"the shell ended in: {command.text}\n{shown}")

    def _stop(self, number: signal.Signals) -> None:
        """Send Ctrl-C to every process of a command, or SIGKILL to the one that was started."""
        shell = psutil.Process(self.shell.pid)
        for process in shell.children(recursive=number == signal.SIGINT):
            process.send_signal(number)

    def _fits(self, expected: str, line: str) -> bool:
        for path, name in self.names.items():
            line = line.replace(path, name)
        pattern = ".*".join(re.escape(part) for part in plain(expected).split("…"))
        return re.fullmatch(pattern, plain(line)) is not None


def plain(line: str) -> str:
    """Remove the parts that differ from run to run."""
    return re.sub(r"\s+", " ", NUMBER.sub("0", line)).strip()
