"""The command line: one command per file of `commands/`; errors become exit codes here only."""

import argparse
import io
import os
import platform
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType, ModuleType

from videopipe.commands import doctor
from videopipe.commands.models import adopt, export, inflate, kernels, models
from videopipe.commands.pipelines import graph, init, plan, run, stages, validate
from videopipe.commands.results import prune, report, runs
from videopipe.commands.videos import bench, check, embed, evaluate, predict
from videopipe.errors import ConfigError, VideopipeError

COMMANDS: dict[str, ModuleType] = {
    "init": init,
    "run": run,
    "check": check,
    "plan": plan,
    "validate": validate,
    "graph": graph,
    "stages": stages,
    "models": models,
    "adopt": adopt,
    "inflate": inflate,
    "predict": predict,
    "embed": embed,
    "evaluate": evaluate,
    "export": export,
    "report": report,
    "kernels": kernels,
    "runs": runs,
    "prune": prune,
    "doctor": doctor,
    "bench": bench,
}

OK, KNOWN_ERROR, BAD_CONFIGURATION, UNEXPECTED_ERROR = 0, 1, 2, 3
INTERRUPTED, TERMINATED = 130, 143
# The one table of exit codes: name and meaning. `tools/make_docs.py` writes it to docs/commands.md.
EXIT_CODES = {
    OK: ("ok", "success, also if all results existed already"),
    KNOWN_ERROR: (
        "known error",
        "a problem you can fix; the message states the problem and the remedy. Also: `check` found "
        "videos that cannot be used; `predict` or `embed` could score no video, or, with "
        "`--strict`, not all videos; `doctor` found a problem; `bench` found no decoder that reads "
        "every clip",
    ),
    BAD_CONFIGURATION: ("bad configuration", "bad arguments or settings; all problems are listed"),
    UNEXPECTED_ERROR: ("unexpected error", "a fault of videopipe; the traceback is in `error.log`"),
    INTERRUPTED: ("interrupted", "Ctrl-C (SIGINT); the same command resumes"),
    TERMINATED: ("terminated", "SIGTERM; the same command resumes"),
}

EPILOGUE = """first steps:
  videopipe doctor                            is this machine ready?
  videopipe run demo                          a whole pipeline, small, no download
  videopipe COMMAND --help                    what a command takes, with examples

exit codes: 0 done, 1 a problem you can fix, 2 bad configuration or arguments,
3 a fault of videopipe (a traceback is saved), 130 interrupted, 143 terminated (finished results
are kept)
"""


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM; it ends as it does on Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, and prints the message of an error."""
    args = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # a file name may hold bytes that are not UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Threads that spin while waiting make torch ten times slower on shared cores. The variable is
    # read when torch is imported, which happens later, inside the commands.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    shown = getattr(args, "progress", "auto")
    if shown == "stages":
        from videopipe.system.progress import showing_stages_only

        with showing_stages_only():
            return _run(args)
    if shown != "json" or os.environ.get("RANK", "0") != "0":
        return _run(args)
    from videopipe.system.json_progress import emit, json_on_stderr

    with json_on_stderr():
        emit("start", command=list(sys.argv[1:] if arguments is None else arguments))
        code = _run(args)
        emit("end", exit_code=code)
    return code


def _run(args: argparse.Namespace) -> int:
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(COMMANDS[args.command].main(args))
    except ConfigError as error:
        words = f"{len(error.problems)} {_problems(error)} in the configuration:\n{error}"
        return _end(BAD_CONFIGURATION, words)
    except BrokenPipeError:  # the reader of the output has ended (`videopipe stages | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt as interruption:
        return _end_interrupted(interruption)
    except Exception as error:  # noqa: BLE001 - the boundary
        behind = _interruption_behind(error)
        if behind is not None:
            return _end_interrupted(behind)
        if _is_known(error):
            return _end(KNOWN_ERROR, f"Error: {error}")
        saved = _save_traceback(args, error)
        return _end(
            UNEXPECTED_ERROR,
            f"Unexpected {type(error).__name__}: {error}\n"
            f"This is a fault of videopipe, not yours. {saved}",
        )
    finally:
        signal.signal(signal.SIGTERM, previous)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command, each with its summary and examples."""
    parser = argparse.ArgumentParser(
        prog="videopipe",
        description="Video understanding from one YAML.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        verb = verbs.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY,
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(verb)
    return parser


class _Version(argparse.Action):
    """Prints the versions of videopipe and of the packages that results depend on."""

    def __call__(self, *_: object) -> None:
        from videopipe.pipeline.run_log import environment

        for name, value in environment().items():
            print(f"{name} {value}")
        raise SystemExit(OK)


def _end_interrupted(interruption: KeyboardInterrupt) -> int:
    code = TERMINATED if isinstance(interruption, Terminated) else INTERRUPTED
    return _end(code, str(interruption) or "Interrupted. Everything finished so far is kept.")


def _interruption_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption during whose clean-up an error occurred, such as a closed pipe."""
    behind = error.__context__
    if behind is None or isinstance(behind, KeyboardInterrupt):
        return behind
    return _interruption_behind(behind)


def _is_known(error: Exception) -> bool:
    if isinstance(error, VideopipeError):
        return True
    # `pretrained_2d` is not imported here, because `--help` must be quick.
    below = sys.modules.get("pretrained_2d.errors")
    return below is not None and isinstance(error, below.PretrainedError)


def _save_traceback(args: argparse.Namespace, error: Exception) -> str:
    runs = getattr(args, "runs", None)
    path = Path(runs if runs and Path(runs).is_dir() else ".") / "error.log"
    lines = [
        f"{datetime.now().isoformat(timespec='seconds')}  {' '.join(sys.argv)}\n",
        f"Python {platform.python_version()}, {platform.platform()}\n\n",
        *traceback.format_exception(error),
    ]
    try:
        path.write_text("".join(lines), encoding="utf-8", errors="backslashreplace")
    except OSError:  # the folder is not writable
        return "The traceback:\n" + "".join(lines)
    return f"The traceback is in {path}; please report it."


def _end(code: int, message: str) -> int:
    """Print why the command ends; returns its exit code."""
    from videopipe.system import json_progress

    if json_progress.active():
        json_progress.emit("error", kind=EXIT_CODES[code][0], text=message)
        return code
    rank, processes = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    prefix = f"[process {rank}] " if processes != "1" else ""
    print(f"{prefix}{message}", file=sys.stderr, flush=True)
    return code


def _problems(error: ConfigError) -> str:
    return "problem" if len(error.problems) == 1 else "problems"


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated("Terminated. Everything finished so far is kept.")


if __name__ == "__main__":
    sys.exit(main())
