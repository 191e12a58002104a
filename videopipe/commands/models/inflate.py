"""`videopipe inflate`: make a video network from a 2D checkpoint, and test it on still videos."""

import argparse
from dataclasses import Field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pretrained_2d.setting import settings_of
from videopipe.commands.arguments import check_out_folder
from videopipe.errors import ConfigError
from videopipe.inflation.options import InflationOptions

SUMMARY = "inflate a 2D checkpoint along time by any of eight methods, tested on still videos"
EXAMPLES = """  videopipe inflate resnet/ --method s4nd --out resnet_video/
  videopipe inflate convnext/ --method s4nd --temporal-patch 2 --length 4 --num-classes 51 --out v/
  videopipe inflate resnet/ --method i3d --layers 're:layer[34]' --num-frames 16 --out out/
  videopipe inflate convnext/ --method s4nd --start paper --basis hippo --copies none \\
      --scale none --temporal-patch 2 --out as_released/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Checkpoint, output, head, and one argument for each field of InflationOptions."""
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=Path, help="folder of a 2D network"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="new folder")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint in DIR")
    parser.add_argument(
        "--num-classes",
        metavar="N",
        type=int,
        help="new head with this many classes (default: keep the head)",
    )
    parser.add_argument(
        "--labels", metavar="FILE|A,B,…", help="classes of the new head: a text file or a list"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="random seed (default: 0)")
    hints = get_type_hints(InflationOptions)
    for field in fields(InflationOptions):
        _add_option(parser, field, hints[field.name])
    parser.add_argument(
        "--layer-table", action="store_true", help="also print a table of all layers"
    )


def main(args: argparse.Namespace) -> int:
    """Inflate, write the folder, and print the summary."""
    from pretrained_2d.checkpoints.foreign.labels import read_labels

    try:
        options = settings_of(InflationOptions, args)
    except ValueError as error:
        raise ConfigError([str(error)]) from error
    labels = None if args.labels is None else read_labels(args.labels)
    check_out_folder(args.out, args.checkpoint, overwrite=args.overwrite)
    from videopipe.inflation.operation import inflate_checkpoint

    report = inflate_checkpoint(
        args.checkpoint,
        args.out,
        options,
        num_classes=args.num_classes,
        labels=labels,
        seed=args.seed,
    )
    if args.layer_table:
        print(report.table())
    print(report.summary())
    print(f"written: {args.out} (every layer in {args.out / 'inflation.md'})")
    return 0


def _add_option(parser: argparse.ArgumentParser, field: "Field[Any]", hint: Any) -> None:
    default = field.default
    words, unit = field.metadata["help"], field.metadata.get("unit")
    words += f", in {unit}" if unit and unit not in words else ""
    shown = "none" if default is None else default or "none given"
    flag = f"--{field.name.replace('_', '-')}"
    settings: dict[str, Any] = {
        "default": default,
        "help": f"{words} (default: {shown})".replace("%", "%%"),
    }
    if get_origin(hint) is Literal:
        settings["choices"] = get_args(hint)
    elif hint is bool:
        settings["action"] = argparse.BooleanOptionalAction
    elif get_origin(hint) is tuple:
        settings |= {"nargs": "+", "metavar": "NAME"}
    else:
        kind = get_args(hint)[0] if isinstance(hint, UnionType) else hint
        settings |= {"type": _or_none(kind) if isinstance(hint, UnionType) else kind}
        settings["metavar"] = {int: "N", float: "X"}.get(kind, "NAME")
    parser.add_argument(flag, **settings)


def _or_none(kind: type) -> Any:
    def read(text: str) -> Any:
        return None if text.lower() in ("none", "null") else kind(text)

    read.__name__ = f"{kind.__name__} or none"  # argparse shows it
    return read
