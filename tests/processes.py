"""Start commands in processes of their own, several at once, or paused at a chosen point."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]
# One thread each, since tests run side by side; ACCELERATE_USE_CPU keeps GPUs out.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(REPOSITORY),
    "OMP_NUM_THREADS": "1",
    "ACCELERATE_USE_CPU": "true",
}
# `--multi_gpu` makes accelerate start several processes, also where they run on the CPU.
ACCELERATE = [
    sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
    "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
    "--main_process_port", "0",
]  # fmt: skip
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
]  # fmt: skip
LONGEST_SECONDS = 540  # a limit against hanging for ever, far above what any command needs
PAUSED = "paused\n"


def run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a command, which must succeed; returns its output."""
    done = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONGEST_SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def pause_after(target: str, calls: int) -> None:
    """From call number `calls` on, `module:Class.method` prints a line and does not return.

    Tests that stop a process use it to stop at a known point, independently of the load.
    """
    module, _, path = target.partition(":")
    name, _, method = path.partition(".")
    owner = getattr(importlib.import_module(module), name)
    original = getattr(owner, method)
    made = 0

    def paused(*arguments: object, **options: object) -> object:
        nonlocal made
        result = original(*arguments, **options)
        made += 1
        while made >= calls:
            print(PAUSED, end="", flush=True)
            signal.pause()
        return result

    setattr(owner, method, paused)


def start_paused(
    target: str, calls: int, command: Sequence[str | Path], launcher: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start `videopipe` with these words, or a program with its arguments; wait for the pause.

    With a launcher, the processes that it starts pause, each for itself.
    """
    process = subprocess.Popen(
        [*(launcher or [sys.executable]), __file__, target, str(calls), *map(str, command)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == PAUSED:
            return process
    raise AssertionError(f"ended before the pause, with exit code {process.wait()}")


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL for a process and everything it started."""
    # Launchers start their processes in sessions of their own.
    started = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    for one in started:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(started)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


if __name__ == "__main__":
    import runpy

    pause_after(sys.argv[1], int(sys.argv[2]))
    sys.argv = sys.argv[3:]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        from videopipe.cli import main

        sys.exit(main(sys.argv))
