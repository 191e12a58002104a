"""`videopipe adopt`: make a checkpoint folder from weights of another program."""

import argparse
import sys
from pathlib import Path
from typing import Any

from pretrained_2d.setting import settings_of
from videopipe.commands.arguments import add_old_name, check_out_folder

SUMMARY = "convert a checkpoint of another program, with a report of every tensor"
EXAMPLES = """  videopipe adopt resnet18.pth --architecture timm/resnet18 --out models/resnet18
  videopipe adopt dinov2.pth --architecture timm/vit_small_patch14_dinov2 --image-size 224 \\
      --out models/dinov2
  videopipe adopt facebook/dinov2-small/ --out models/dinov2    # a folder of transformers
  videopipe adopt i3d.safetensors --architecture inception_i3d --labels k400.txt --out models/i3d
  videopipe adopt ct.pth --architecture timm/resnet18 --option in_chans=1 --out models/ct
  videopipe adopt best.ckpt --architecture convnext_tiny --labels cat,dog --mean 0.5,0.5,0.5 \\
      --std 0.5,0.5,0.5 --image-size 224 --crop 0.875 --out models/pets
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """CHECKPOINT, --architecture, --out, and what a file of weights does not contain."""
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        type=Path,
        help="a safetensors or PyTorch file of any name, an index of several, or their folder",
    )
    parser.add_argument(
        "--architecture",
        metavar="NAME",
        help="network of the weights; `videopipe models` lists them (default: what config.json of "
        "a Hugging Face transformers folder names)",
    )
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="new folder")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint in DIR")
    parser.add_argument("--labels", metavar="FILE|a,b,…", help="class names, in order")
    parser.add_argument(
        "--mean",
        metavar="R,G,B",
        type=_numbers,
        help="mean of values in [0, 1], one for each input channel",
    )
    parser.add_argument(
        "--std", metavar="R,G,B", type=_numbers, help="standard deviation of values in [0, 1]"
    )
    parser.add_argument(
        "--image-size", metavar="PIXELS", type=int, help="height and width of the input"
    )
    parser.add_argument(
        "--crop",
        metavar="FRACTION",
        type=float,
        help="crop as a fraction of the short side, such as 0.875",
    )
    parser.add_argument("--interpolation", choices=("bilinear", "bicubic"))
    parser.add_argument(
        "--squash", action="store_true", help="scale whole frames to a square instead of cropping"
    )
    parser.add_argument("--num-frames", metavar="N", type=int, help="frames per clip (3D networks)")
    add_old_name(parser, "--frames", "--num-frames")
    parser.add_argument("--clip-seconds", metavar="S", type=float, help="length of a clip")
    parser.add_argument(
        "--head",
        choices=("new", "drop", "strict"),
        help="new: do not take the file's head; drop: no head, an encoder; strict: the file's head "
        "must fit (default: the file's head where it fits, else a new one)",
    )
    parser.add_argument(
        "--entry",
        metavar="NAME",
        help="which weights, if the file has several: a key (state_dict_ema) or a prefix of names "
        "(ema_model)",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_option,
        help="an option of the architecture, such as mixer=s4nd, ndim=3 or in_chans=1; repeatable",
    )


def main(args: argparse.Namespace) -> int:
    """Adopt, report every tensor, and print the folder."""
    from pretrained_2d.checkpoints.foreign import Adoption, adopt
    from pretrained_2d.checkpoints.foreign.hugging_face.hugging_face_folder import read_hugging_face
    from pretrained_2d.checkpoints.foreign.labels import read_labels
    from videopipe.errors import VideopipeError

    if args.architecture is None and read_hugging_face(args.checkpoint) is None:
        if args.checkpoint.is_dir():
            raise VideopipeError(
                f"{args.checkpoint} is a folder: a checkpoint of videopipe needs no adopting, "
                "inflate it or predict with it as it is; for weights of another program give "
                "--architecture"
            )
        raise VideopipeError(
            f"--architecture is missing: name the network of {args.checkpoint}. `videopipe models` "
            "lists all, `videopipe models 'timm/*'` those of timm"
        )
    check_out_folder(args.out, args.checkpoint, overwrite=args.overwrite)
    request = settings_of(
        Adoption,
        args,
        architecture=args.architecture or "",
        labels=read_labels(args.labels) if args.labels else None,
        options=dict(args.option),
    )
    card, report = adopt(request, args.out)
    for line in report.lines():
        print(line, file=sys.stderr)
    pixels = card.preprocessing
    print(
        f"input: {pixels.image_size} pixels cropped from a short side of {pixels.resize}, "
        f"mean {pixels.mean}, std {pixels.std}"
        + (f", {card.num_frames} frames in {card.clip_seconds} s" if card.num_frames else ""),
        file=sys.stderr,
    )
    print(args.out)
    return 0


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.split(","))


def _option(text: str) -> tuple[str, Any]:
    import json

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
