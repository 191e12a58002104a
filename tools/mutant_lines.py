"""Which tests execute which lines of the modules that `tools/mutants.py` changes.

    python tools/mutant_lines.py --out lines.jsonl                  # the tests near these modules
    python tools/mutant_lines.py --out lines.jsonl tests/s4nd       # or tests of your choice

One JSON object per test is appended: its name, its processor time, and the lines it executed in
this process, per file. Lines of a file that has changed since are of no use, so a digest of each
file is kept with them. Lines that only a child process executes are not seen.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import pytest
from mutant_tests import ROOT, digest, tests_of
from mutants import preload, target_files


class LineRecorder:
    """A plugin of pytest that writes the lines executed by each test that passes."""

    def __init__(self, files: set[str], out: TextIO) -> None:
        self.names = {str(ROOT / file): file for file in files}
        self.out = out
        self.lines: dict[str, set[int]] = {}
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed

    def trace(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Called by the interpreter for each call of a function."""
        file = self.names.get(frame.f_code.co_filename)
        if file is None:
            return None
        add = self.lines.setdefault(file, set()).add

        def each_line(inner: FrameType, _event: str, _argument: object) -> Any:
            add(inner.f_lineno)
            return each_line

        add(frame.f_lineno)
        return each_line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.lines, self.failed = {}, False
        began = time.process_time()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            row = {
                "test": item.nodeid,
                "seconds": round(time.process_time() - began, 2),
                "lines": {file: sorted(lines) for file, lines in self.lines.items()},
                "digests": {file: digest(file) for file in self.lines},
            }
            if self.lines and not self.failed:
                self.out.write(json.dumps(row) + "\n")
                self.out.flush()


def main() -> int:
    """Run tests once and record their lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="append results here")
    parser.add_argument("tests", nargs="*", help="default: test files near the changed modules")
    args = parser.parse_args()
    files = {path.relative_to(ROOT).as_posix() for path in target_files()}
    near = {test for file in files for test, far in tests_of(file).items() if far < 2}
    os.chdir(ROOT)
    preload()
    with args.out.open("a") as out:
        recorder = LineRecorder(files, out)
        options = ["-q", "-p", "no:cacheprovider", *(args.tests or sorted(near))]
        return int(pytest.main(options, plugins=[recorder]))


if __name__ == "__main__":
    sys.exit(main())
