"""`videopipe export`: write a checkpoint as ONNX, a program of torch.export or a hub folder."""

import argparse
from pathlib import Path

from videopipe.errors import ConfigError, VideopipeError

SUMMARY = "export a checkpoint to ONNX or torch.export, compared on clips, or as a hub folder"
EXAMPLES = """  videopipe export runs/model --format onnx --out model.onnx --videos clips/
  videopipe export runs/model --format onnx --input uint8 --out model.onnx
  videopipe export runs/model --format pt2 --out model.pt2
  videopipe export runs/model --format hub --out my-model --evaluation runs/scores
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, --format, --out, and what goes into the graph."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a checkpoint folder")
    parser.add_argument("--format", choices=("onnx", "pt2", "hub"), required=True)
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="new file; FILE.json describes it: labels, preprocessing, input, comparison. For "
        "hub a new folder: the checkpoint with a README.md card",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--evaluation",
        metavar="DIR",
        type=Path,
        help="hub: result of an evaluate stage, whose accuracies go into the card",
    )
    parser.add_argument(
        "--input",
        choices=("float32", "uint8"),
        default="float32",
        help="float32: normalised, channels first; uint8: frames (batch, time, height, width, 3), "
        "normalised inside the graph; resizing and cropping stay outside (default: float32)",
    )
    parser.add_argument(
        "--batch-size", metavar="N", type=int, help="fixed batch size (default: any batch size)"
    )
    parser.add_argument(
        "--videos",
        metavar="PATH",
        nargs="+",
        default=[],
        help="videos to compare on: files, folders or patterns; the first four are used "
        "(default: generated clips)",
    )
    parser.add_argument(
        "--tolerance",
        metavar="X",
        type=float,
        default=1e-4,
        help="largest accepted difference, relative to the largest logit (default: 1e-4)",
    )


def main(args: argparse.Namespace) -> int:
    """Export, compare, and print what was written."""
    if args.format == "hub":
        return _export_hub(args)
    problems = []
    if args.evaluation is not None:
        problems.append("--evaluation is for --format hub")
    if args.batch_size is not None and args.batch_size < 1:
        problems.append(f"--batch-size is {args.batch_size}; expected 1 or more")
    if not 0 < args.tolerance < 1:
        problems.append(f"--tolerance is {args.tolerance:g}; expected more than 0 and less than 1")
    if args.out.suffix != f".{args.format}":
        problems.append(f"--out is {args.out}; expected a name that ends in .{args.format}")
    if problems:
        raise ConfigError(problems)
    if args.out.is_dir():
        raise VideopipeError(f"--out {args.out} is a folder; name a file")
    if args.out.exists() and not args.overwrite:
        raise VideopipeError(f"--out {args.out} exists; name a new file, or add --overwrite")
    from videopipe.export.checkpoint_export import description_path, export_checkpoint

    report = export_checkpoint(
        args.model,
        args.out,
        args.format,
        input_type=args.input,
        batch_size=args.batch_size,
        videos=args.videos,
        tolerance=args.tolerance,
    )
    entry = report.description["input"]
    shape = " × ".join(map(str, entry["shape"]))
    opset = f", opset {report.description['opset']}" if args.format == "onnx" else ""
    print(f"input {entry['name']}: {entry['type']} {shape} ({', '.join(entry['axes'])})")
    operators = f"{sum(report.operators.values())} operators of {len(report.operators)} kinds"
    print(f"{operators}{opset}, {report.size_bytes / 1e6:.1f} MB")
    convolutions = report.description["convolutions_3d"] or "no"
    rank = report.description["largest_rank"]
    print(f"{convolutions} 3D convolutions, tensors of rank {rank} at most")
    print(f"compared with {args.model}: {report.agreement}")
    print(f"written: {args.out} and {description_path(args.out)}")
    return 0


def _export_hub(args: argparse.Namespace) -> int:
    given = {
        "--input": args.input != "float32",
        "--batch-size": args.batch_size is not None,
        "--videos": bool(args.videos),
        "--tolerance": args.tolerance != 1e-4,
        "--overwrite": args.overwrite,
    }
    problems = [f"{name} is for --format onnx and pt2" for name, there in given.items() if there]
    if problems:
        raise ConfigError(problems)
    if args.out.exists():
        raise VideopipeError(f"--out {args.out} exists; name a new folder")
    from videopipe.export.hub_folder import export_hub_folder

    export_hub_folder(args.model, args.out, args.evaluation)
    print(f"written: {args.out} (README.md, config.json, model.safetensors)")
    print(f"publish: hf upload OWNER/{args.out.name} {args.out}")
    return 0
