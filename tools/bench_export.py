"""Exported models beside eager PyTorch on this CPU: one forward pass, the same input.

    python tools/bench_export.py                          # ONNX and pt2, three networks
    python tools/bench_export.py --formats onnx --rounds 30 --json export.json

Eager runs in evaluation mode without gradients, as `predict` does, with the kernels of S4ND layers
cached. The candidates of a row take turns and the median of `--rounds` turns counts. Every file
is compared with its network before it is timed, as `videopipe export` does.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.networks.backbones import build
from videopipe.export.agreement import compare, generated_clips
from videopipe.export.checkpoint_export import TOLERANCE
from videopipe.export.clip_graph import GraphInput, trace
from videopipe.export.file_formats import FileFormat, load_program, write_program
from videopipe.inflation.folded import inflate


@dataclass(frozen=True)
class Subject:
    """A network with random weights and the input it is timed on."""

    architecture: str
    options: dict[str, Any]
    image_size: int
    num_frames: int | None = None  # None: images
    method: str | None = None  # of inflation

    def build(self) -> nn.Module:
        """The network in evaluation mode."""
        torch.manual_seed(0)
        network = build(self.architecture, num_classes=51, **self.options)
        with torch.no_grad():
            for parameter in network.parameters():
                if float(parameter.abs().max()) < 1e-2:  # zero heads and layer scales hide layers
                    parameter.normal_(std=0.1)
        if self.method is not None:
            assert self.num_frames is not None
            network = inflate(
                network, method=self.method, num_frames=self.num_frames, image_size=self.image_size
            )
        return network.eval()

    @property
    def card(self) -> ModelCard:
        """What `videopipe export` reads from a checkpoint."""
        preprocessing = Preprocessing(image_size=self.image_size)
        if self.num_frames is None:
            return ModelCard(architecture=self.architecture, ndim=2, preprocessing=preprocessing)
        return ModelCard(
            architecture=self.architecture, ndim=3, num_frames=self.num_frames,
            clip_seconds=1.0, preprocessing=preprocessing,
        )  # fmt: skip


SUBJECTS = {
    "S4ND-ConvNeXt-T": Subject("convnext_tiny", {"mixer": "s4nd"}, 224),
    "ResNet-18 s4nd": Subject("timm/resnet18", {}, 112, 8, "s4nd"),
    "ResNet-18 i3d": Subject("timm/resnet18", {}, 112, 8, "i3d"),
}


def bench(subject: Subject, formats: list[FileFormat], rounds: int) -> dict[str, Any]:
    """Milliseconds of eager and of each format, and how far each file is from the network."""
    network, card = subject.build(), subject.card
    of = GraphInput.of(card, "float32")
    program = trace(network, card, of, None)
    signal = torch.randn(1, *of.shape, generator=torch.Generator().manual_seed(1))
    runs: dict[str, Callable[[Tensor], Tensor]] = {"eager": torch.inference_mode()(network)}
    differences = {}
    with tempfile.TemporaryDirectory() as folder:
        for format in formats:
            path = Path(folder) / f"model.{format}"
            write_program(format, program, path, (of.name, "logits"), {})
            runs[format] = load_program(format, path)
            found = compare(
                runs[format], network, card, of, generated_clips(card),
                tolerance=TOLERANCE, batch_size=None,
            )  # fmt: skip
            if not found.holds:
                raise SystemExit(f"{subject.architecture} as {format}: {found}")
            differences[format] = found.difference
        turns: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(rounds + 1):
            for name, run in runs.items():
                start = time.perf_counter()
                run(signal)
                took = 1e3 * (time.perf_counter() - start)
                if turn:  # the first warms up
                    turns[name].append(took)
    times = {name: median(each) for name, each in turns.items()}
    return {"shape": [1, *of.shape], "milliseconds": times, "differences": differences}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--formats", nargs="+", choices=("onnx", "pt2"), default=["onnx", "pt2"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    args = parser.parse_args()
    found = {}
    for name in args.subjects:
        found[name] = bench(SUBJECTS[name], args.formats, args.rounds)
        times = ", ".join(f"{way} {ms:.1f} ms" for way, ms in found[name]["milliseconds"].items())
        print(f"{name}, {'×'.join(map(str, found[name]['shape']))}: {times}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"exported": found}))


if __name__ == "__main__":
    main()
