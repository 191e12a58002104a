"""The cost of a time axis: training steps of an inflated network and of its 2D network.

    python tools/bench_inflation.py                       # ConvNeXt-T, 30 frames of 224 pixels
    python tools/bench_inflation.py --num-frames 8 --image-size 112 --repeats 5 --json bench.json

Every row runs forward and backward on the same frames; the 2D network takes them as a batch. Rows
take turns and the median of their repeats counts. Processor time is that of all threads. On a
shared machine it is more reliable than wall-clock time. The naive row runs
every inflated kernel as a plain Conv3d, as most I3D code does.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional

from videopipe.inflation.folded import inflate
from videopipe.inflation.mixing.kernel3d import FoldedConv3d

ROWS: dict[str, dict[str, Any]] = {
    "s3d, one vector per layer": {"method": "s3d"},
    "s3d, one vector per channel": {"method": "s3d", "temporal_weights": "channel"},
    "s4nd": {"method": "s4nd"},
    "i3d, folded": {"method": "i3d"},
    "center, folded": {"method": "center"},
    "shift": {"method": "shift"},
    "adapter": {"method": "adapter"},
    "adapter, s4nd kernel": {"method": "adapter", "adapter_kernel": "s4nd"},
    "attention": {"method": "attention"},
}


class NaiveConv3d(nn.Module):
    """The same 3D kernel as an ordinary Conv3d on (batch, channels, time, height, width)."""

    def __init__(self, folded: FoldedConv3d) -> None:
        super().__init__()
        self.folded = folded

    def forward(self, frames: Tensor) -> Tensor:
        layer, spatial = self.folded, self.folded.spatial
        clip = frames.unflatten(0, (layer.batch.clips, layer.batch.steps)).transpose(1, 2)
        ends = layer.length // 2
        clip = functional.pad(clip, (0, 0, 0, 0, ends, ends), mode="replicate")
        strides, margins = (1, *spatial.stride), (0, *spatial.padding)
        out = functional.conv3d(
            clip, layer.weight, layer.bias, strides, margins, groups=spatial.groups
        )
        return out.transpose(1, 2).flatten(0, 1)


def step_2d(architecture: str, clip: Tensor) -> Callable[[], None]:
    network = timm.create_model(architecture, num_classes=51).train()
    frames = clip[0].transpose(0, 1).contiguous()
    return lambda: network(frames).mean(0).logsumexp(-1).backward()


def step_video(architecture: str, clip: Tensor, options: dict[str, Any]) -> Callable[[], None]:
    naive = options.get("naive", False)
    options = {name: value for name, value in options.items() if name != "naive"}
    network = timm.create_model(architecture, num_classes=51)
    video = inflate(network, image_size=clip.shape[-1], num_frames=clip.shape[2], **options)
    if naive:
        for layer in video.plan.layers:
            parent, _, name = layer.name.rpartition(".")
            module = network.get_submodule(layer.name)
            network.get_submodule(parent).add_module(name, NaiveConv3d(module))
    video.train()
    return lambda: video(clip).logsumexp(-1).sum().backward()


def measure(steps: dict[str, Callable[[], None]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median seconds of each step, by the clock and by the processor; one round warms up."""
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(repeats + 1):
        for name, step in steps.items():
            took = seconds_of(step)
            if turn:
                turns[name].append(took)
    return {
        name: (median(clock for clock, _ in each), median(processor for _, processor in each))
        for name, each in turns.items()
    }


def seconds_of(step: Callable[[], None]) -> tuple[float, float]:
    """(by the clock, of the processor)."""
    clock, processor = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--architecture", default="convnext_tiny", help="of timm (convnext_tiny)")
    parser.add_argument("--num-frames", type=int, default=30)
    parser.add_argument("--image-size", type=int, default=224, help="pixels (224)")
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds (3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--no-naive", action="store_true", help="leave out the slow Conv3d row")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    clip = torch.randn(1, 3, args.num_frames, args.image_size, args.image_size)
    steps = {"2D network, same frames": step_2d(args.architecture, clip)}
    for name in args.rows:
        steps[name] = step_video(args.architecture, clip, ROWS[name])
    seconds = measure(steps, args.repeats)
    if not args.no_naive:
        naive = step_video(args.architecture, clip, {"method": "i3d", "naive": True})
        seconds["i3d, naive Conv3d (one step)"] = seconds_of(naive)
    base = seconds["2D network, same frames"]
    print(f"{args.architecture}, {'×'.join(map(str, clip.shape))}, training step")
    print("| network | seconds | of 2D | processor seconds | of 2D |\n|---|---|---|---|---|")
    for name, (clock, processor) in seconds.items():
        print(
            f"| {name} | {clock:.2f} | {clock / base[0]:.2f}× "
            f"| {processor:.2f} | {processor / base[1]:.2f}× |",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps({"arguments": vars(args), "seconds": seconds}, default=str))


if __name__ == "__main__":
    main()
