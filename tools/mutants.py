"""Change the code in small wrong ways, one at a time, and list the changes that no test detects.

    python tools/mutants.py --count 40 --minutes 20            # `make mutants`
    python tools/mutants.py --count 200 --minutes 240 --out mutants.jsonl
    python tools/mutants.py --count 200 --lines lines.jsonl --seconds 60 --out mutants.jsonl

A mutant is one changed expression: `+` for `-`, `<` for `<=`, a number plus one, a keyword argument
left out, a condition negated. Mutants are drawn by `--seed` from the modules in TARGETS. For each,
the tests of the changed module run in a copy of the tree, the nearest test file first and the
others by their measured duration, until one fails. With `--lines` (made by tools/mutant_lines.py)
only tests that execute the changed line run, the nearest and quickest first, and files of which
no test is recorded.

- caught: a test failed, crashed, or used SECONDS_PER_TEST of processor time; `by` names it;
- survived: all these tests passed; printed as file:line, before and after;
- open: `--seconds` of processor time were used up and no test had failed.

Results are appended to `--out`. A run with the same file skips the mutants that are decided there
and resumes the open ones with the test files that have not passed yet.
"""

import argparse
import gc
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from mutant_changes import Mutant, mutants_of
from mutant_tests import ROOT, groups_of_tests, in_groups, read_lines

TARGETS = (
    "s4nd/*.py",
    "s4nd/engines/*.py",
    "s4nd/kernels/*.py",
    "pretrained_2d/training/**/*.py",
    "videopipe/finetuning/*.py",
    "videopipe/inflation/**/*.py",
    "videopipe/dataset/clips/sampling.py",
    "videopipe/scoring/*.py",
    "videopipe/evaluation/**/*.py",
    "videopipe/pipeline/fingerprint.py",
    "videopipe/pipeline/results.py",
    "videopipe/prediction/score_journal.py",
    "videopipe/prediction/table/parts.py",
    "videopipe/prediction/table/merge.py",
)
# Processor time, so that a busy machine does not turn survivors into caught ones.
SECONDS_PER_TEST = 120
WALL_SECONDS_PER_TEST = 400  # for a test that waits for ever
CAUGHT, SURVIVED, OPEN = "caught", "survived", "open"
PRELOADED = (
    "accelerate", "av", "hypothesis", "matplotlib.pyplot", "numba", "pyarrow.parquet", "pytest",
    "scipy.stats", "timm", "torch", "torchvision.transforms.v2", "yaml",
)  # fmt: skip


@dataclass
class Outcome:
    """The result of the tests of a mutant."""

    state: str
    by: str = ""  # the test that failed
    passed: dict[str, float] = field(default_factory=dict)  # test file or test: processor seconds


def examine(
    mutant: Mutant,
    tree: Path,
    groups: list[list[str]],
    limit: float,
    known: Mapping[str, float] | None = None,
) -> Outcome:
    """Run test files or tests, group by group, in a copy of the tree with this one change."""
    path = tree / mutant.file
    text = path.read_text()
    path.write_text(f"{text[: mutant.start]}({mutant.after}){text[mutant.end :]}")
    report = tree.with_suffix(".report")
    report.unlink(missing_ok=True)
    try:
        child = os.fork()
        if child == 0:
            units = {name for group in groups for name in group}
            _run_tests(tree, groups, Reporter(report, limit, units, known or {}))
        os.waitpid(child, 0)
    finally:
        path.write_text(text)
    lines = [line.split("\t") for line in report.read_text().splitlines()]
    passed = {name: float(value) for kind, name, value in lines if kind == "passed"}
    if lines and lines[-1][0] == "end":
        return Outcome(lines[-1][1], lines[-1][2], passed)
    running = [name for kind, name, _ in lines if kind == "began"]
    return Outcome(CAUGHT, f"{running[-1] if running else 'start'} (crashed or hung)", passed)


class Reporter:
    """A plugin of pytest that reports tests in a file and ends a run at its time limit."""

    def __init__(
        self, report: Path, limit: float, units: set[str], known: Mapping[str, float]
    ) -> None:
        self.stream = os.open(report, os.O_WRONLY | os.O_CREAT)
        self.limit = limit
        self.units = units  # what was asked for: test files, or single tests
        self.known = known
        self.failed = ""
        self.unit = ""
        self.started = 0.0

    def write(self, kind: str, name: str, value: object = "") -> None:
        os.write(self.stream, f"{kind}\t{name}\t{value}\n".encode())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begin(nodeid if nodeid in self.units else nodeid.partition("::")[0])
        self.write("began", nodeid)
        # Ten seconds and ten times what the test takes without the change is a hang.
        longest = 10 + 10 * self.known.get(nodeid, SECONDS_PER_TEST)
        signal.setitimer(signal.ITIMER_PROF, min(longest, SECONDS_PER_TEST))

    def begin(self, unit: str) -> None:
        """Close the file or test before, which has passed."""
        if unit == self.unit:
            return
        now = _processor_seconds()
        if self.unit and not self.failed:
            self.write("passed", self.unit, round(now - self.started, 2))
        self.unit, self.started = unit, now

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid} (collection)"

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if not self.failed and _processor_seconds() > self.limit:
            self.write("end", OPEN)
            os._exit(0)


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def target_files() -> list[Path]:
    return sorted({path for pattern in TARGETS for path in ROOT.glob(pattern)})


def preload() -> None:
    """Import what the tests need and no mutant changes: test runs are forked and start with it."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False  # every mutant would compile all modules and tests again
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as in tests/conftest.py
    for name in PRELOADED:
        importlib.import_module(name)


def _run_tests(tree: Path, groups: list[list[str]], reporter: Reporter) -> None:
    """Run tests in a forked process, which ends here."""
    import pytest

    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    gc.freeze()  # pytest collects garbage at its end, and what is preloaded stays
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={WALL_SECONDS_PER_TEST}"]
    try:
        # Most mutants fail in the nearest file; the others are not even collected then.
        for files in groups:
            status = pytest.main([*options, *files], plugins=[reporter])
            if reporter.failed or status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
                reporter.write("end", CAUGHT, reporter.failed or f"exit code {int(status)}")
                os._exit(0)
            reporter.begin("")
        reporter.write("end", SURVIVED)
    except BaseException as error:  # noqa: BLE001 - whatever stops the tests has noticed the change
        reporter.write("end", CAUGHT, type(error).__name__)
    os._exit(0)


def copy_tree(target: Path) -> Path:
    """A copy of the files that git tracks, with the loops that numba has compiled for them."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for cached in ROOT.glob("s4nd/compiled/__pycache__/*.nb?"):  # compiling takes half a minute
        (target / cached.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy2(cached, target / cached.relative_to(ROOT))
    return target


def main() -> int:
    """Run mutants until the count or the time is used up; exit code 1 when one survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="mutants to run (default 40)")
    parser.add_argument("--minutes", type=float, default=20, help="time budget (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument(
        "--seconds", type=float, default=600, help="processor time for a mutant (default 600)"
    )
    parser.add_argument("--lines", type=Path, help="a file made by tools/mutant_lines.py")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--out", type=Path, help="append results here, one JSON object per line")
    args = parser.parse_args()

    files = target_files()
    every = [m for path in files if args.only in str(path) for m in mutants_of(path, ROOT)]
    random.Random(args.seed).shuffle(every)
    known, seconds = read_record(args.out)
    lines = read_lines(args.lines) if args.lines else None
    print(f"{len(every)} mutants in {len(files)} files; running {args.count}", flush=True)

    preload()
    deadline = time.monotonic() + 60 * args.minutes
    results: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for worker in range(args.workers):
            trees.put(copy_tree(Path(folder, str(worker))))

        def decide(mutant: Mutant) -> None:
            outcome = known.get(_key(asdict(mutant)))
            if outcome is None or outcome.state == OPEN:
                if time.monotonic() > deadline:
                    return
                before = outcome.passed if outcome else {}
                groups = groups_of_tests(mutant.file, seconds)
                tests, chosen = list[str](), list[str]()
                if lines:
                    tests = lines.tests_for(mutant.file, mutant.line)
                    tests = [test for test in tests if test not in before]
                    chosen = lines.within(tests, args.seconds)
                    groups = in_groups(chosen) + (lines.unrecorded(groups) if tests else groups)
                left = [[test for test in group if test not in before] for group in groups]
                tree = trees.get()
                left, usual = [group for group in left if group], lines.seconds if lines else {}
                outcome = examine(mutant, tree, left, args.seconds, usual)
                trees.put(tree)
                if outcome.state == SURVIVED and len(chosen) < len(tests):
                    outcome.state = OPEN
                seconds.update(outcome.passed)
                outcome.passed = before | outcome.passed
                if args.out:
                    row = {"mutant": asdict(mutant)} | asdict(outcome)
                    with args.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            results.append(outcome)
            if outcome.state != CAUGHT:
                change = f"{mutant.before} -> {mutant.after}"
                place = f"{mutant.file}:{mutant.line}"
                print(f"{outcome.state.upper()} {place}: {change}", flush=True)

        with ThreadPoolExecutor(args.workers) as pool:
            list(pool.map(decide, every[: args.count]))
    count = {state: sum(r.state == state for r in results) for state in (CAUGHT, SURVIVED, OPEN)}
    print(f"{len(results)} mutants: " + ", ".join(f"{n} {state}" for state, n in count.items()))
    return bool(count[SURVIVED])


def read_record(path: Path | None) -> tuple[dict[str, Outcome], dict[str, float]]:
    """The last outcome of each mutant, and the processor time that each test file took last."""
    outcomes: dict[str, Outcome] = {}
    seconds: dict[str, float] = {}
    if path and path.exists():
        for row in map(json.loads, path.read_text().splitlines()):
            outcomes[_key(row["mutant"])] = Outcome(row["state"], row["by"], row["passed"])
            seconds.update(row["passed"])
    return outcomes, seconds


def _key(mutant: dict[str, object]) -> str:
    return json.dumps(mutant, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())
