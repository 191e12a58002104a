"""`videopipe init`: a first pipeline for a folder of videos."""

import argparse
from pathlib import Path

SUMMARY = "inspect a folder of labelled videos and write a pipeline for it"
EXAMPLES = """\
  videopipe init my_videos --checkpoint resnet50.pth --architecture timm/resnet50
  videopipe init my_videos --checkpoint resnet50_video           # a folder of adopt or inflate
  videopipe init my_videos --out my_videos.yaml      # expects $WEIGHTS at run time
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("data", type=Path, help="folder of videos, or a list of them")
    parser.add_argument(
        "--checkpoint",
        default="$WEIGHTS",
        help="weights of a 2D network, or a checkpoint folder (default: the environment variable "
        "WEIGHTS)",
    )
    parser.add_argument(
        "--architecture",
        help="network of a file of weights, see `videopipe models` (default: convnext_tiny)",
    )
    parser.add_argument("--image-size", type=int, default=224, help="pixels (default: 224)")
    parser.add_argument("--out", type=Path, help="the file to write (default: NAME.yaml here)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")


def main(args: argparse.Namespace) -> int:
    """Write the YAML and print the next command."""
    from pretrained_2d import atomic
    from videopipe.errors import VideopipeError
    from videopipe.pipeline.template import inspect_dataset, write_pipeline
    from videopipe.system.progress import log_line

    if Path(args.checkpoint).is_dir() and args.architecture:
        raise VideopipeError(
            f"{args.checkpoint} is a checkpoint folder, which names its network; leave "
            "--architecture out"
        )
    out = args.out or Path(f"{args.data.resolve().stem}.yaml")
    if out.exists() and not args.overwrite:
        raise VideopipeError(f"{out} exists; give another --out, or --overwrite")
    found = inspect_dataset(args.data)
    text = write_pipeline(
        found,
        checkpoint=args.checkpoint,
        architecture=args.architecture,
        image_size=args.image_size,
    )
    atomic.write_text(out, text)
    log_line(f"{found.layout}: {found.videos} videos, {found.classes} classes")
    log_line(f"Next: videopipe validate {out} && videopipe run {out}")
    print(out)
    return 0
