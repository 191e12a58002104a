"""Write the pages that are generated from the code: docs/stages.md and docs/commands.md.

python tools/make_docs.py           write them
python tools/make_docs.py --check   exit 1 when they are not up to date
"""

import argparse
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def stages_page() -> str:
    from videopipe.commands.pipelines.stages import describe_stage
    from videopipe.stages import STAGES

    head = """\
# Pipelines and stages

A pipeline is a YAML file: a name, and stages in the order in which they run. A stage names one of
the kinds below with `use`, earlier stages with `inputs`, and its settings with `config`. `matrix`
runs a stage, and every stage that depends on it, once for each combination.

```yaml
name: example
stages:
  clips:       {use: decode,   config: {data: my_videos}}
  backbone:    {use: adopt,    config: {checkpoint: weights.pth, architecture: timm/resnet18}}
  video_model: {use: inflate,  inputs: {backbone: backbone}, matrix: {length: [1, 4]}}
  model:       {use: finetune, inputs: {model: video_model, clips: clips}}
  scores:      {use: evaluate, inputs: {model: model, clips: clips}}
  table:       {use: compare,  inputs: {scores: scores}}
```

`videopipe validate` reports every mistake with its line and column. `--set stage.key=value` changes
a setting for one run. A result is kept in `runs/<stage>-<fingerprint>`: a changed setting, input or
stage version gives a new one, and `videopipe plan` says which and why. A setting that does not
change the result gives no new one.

This page is written by `python tools/make_docs.py`.
"""
    parts = [
        f"## {name}\n\n```\n{chr(10).join(describe_stage(name, stage))}\n```\n"
        for name, stage in STAGES.items()
    ]
    return head + "\n" + "\n".join(parts)


def commands_page() -> str:
    os.environ["COLUMNS"] = "100"
    from videopipe.cli import COMMANDS, EXIT_CODES, build_parser
    from videopipe.system.json_progress import EVENTS

    parser = build_parser()
    verbs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parts = [
        f"## {name}\n\n```\n{verbs.choices[name].format_help().strip()}\n```\n" for name in COMMANDS
    ]
    codes = [f"| {code} | {name}: {words} |" for code, (name, words) in EXIT_CODES.items()]
    events = [
        f"| `{event}` | {'; '.join(f'`{name}`: {words}' for name, words in fields.items())} |"
        for event, fields in EVENTS.items()
    ]
    head = f"""\
# Commands

The output of `videopipe COMMAND --help`. Written by `tools/make_docs.py`.

## Exit codes

| code | meaning |
|---|---|
{chr(10).join(codes)}

## Progress for programs

`run`, `predict`, `embed` and `evaluate` take `--progress json`. They then write one JSON object per
line to stderr; stdout is as without it. Every object has `event` and `time` (seconds since 1970).
Programs should ignore events and fields that they do not know. Of several processes, the first one
writes.
A C library that writes to stderr itself, such as a decoder, bypasses this: ignore lines that do not
begin with a brace.

| event | fields |
|---|---|
{chr(10).join(events)}
"""
    return head + "\n" + "\n".join(parts)


PAGES = {"stages.md": stages_page, "commands.md": commands_page}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only report whether they are up to date"
    )
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        if check and name == "commands.md" and sys.version_info >= (3, 13):
            continue  # argparse words its help differently there
        text = make()
        if check and (DOCS / name).read_text() != text:
            stale.append(name)
        elif not check:
            (DOCS / name).write_text(text)
    if stale:
        print(f"not up to date: {', '.join(stale)}; run python tools/make_docs.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
