"""The speed of the S4ND layer: against the FFT, against convolutions, and in a whole network.

    python tools/bench_layer.py                        the table of layers
    python tools/bench_layer.py --network              a training step of (S4ND-)ConvNeXt-T
    python tools/bench_layer.py --crossover            where the FFT overtakes matrix products
    python tools/bench_layer.py --profile              where the time of a layer goes
    python tools/bench_layer.py --device cuda          any of these on a GPU
    python tools/bench_layer.py --json results.json    the same numbers as JSON

Every number is forward + backward with kernel generation included. The candidates of a row take
turns, and the median of `--rounds` turns counts. A network's step runs as in training: freed memory
is kept, and ConvNeXt-T runs with the gradients of `DepthwiseByProducts` and without; the faster
counts. On a GPU a turn is timed by events after a warm-up, and memory is what torch's allocator
holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from bench_device import added_megabytes, check_device, device_name, milliseconds, warm_up
from torch import Tensor, nn

from pretrained_2d.training.efficiency.allocator import keeping_freed_memory
from pretrained_2d.training.efficiency.depthwise import DepthwiseByProducts
from s4nd import S4ND, AxisConfig

SHAPES = [(8, 96, 56, 56), (8, 192, 28, 28), (8, 384, 14, 14), (8, 768, 7, 7), (1, 96, 15, 56, 56)]
CROSSOVER_1D = [(64, 32, n) for n in (16, 64, 128, 256, 512, 1024)]
CROSSOVER_2D = [(2, 16, n, n) for n in (32, 64, 128, 256, 512)]
CROSSOVER_3D = [(1, 8, n, n, n) for n in (16, 32, 48)]
CPU = torch.device("cpu")


def layer_for(shape: tuple[int, ...], engine: str, rank: int = 1) -> S4ND:
    torch.manual_seed(0)
    axes = [AxisConfig(size) for size in shape[2:]]
    return S4ND(shape[1], axes, rank=rank, engine=engine)  # type: ignore[arg-type]


def convolution_for(shape: tuple[int, ...]) -> nn.Module:
    channels = shape[1]
    if len(shape) == 4:
        return nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
    return nn.Conv3d(channels, channels, (3, 7, 7), padding=(1, 3, 3), groups=channels)


def step_of(module: nn.Module, signal: Tensor) -> Callable[[], None]:
    """One forward and backward pass; the gradient comes in the layout of the signal."""
    signal = signal.detach().requires_grad_()
    gradient = torch.randn_like(signal)

    def step() -> None:
        module.zero_grad()
        signal.grad = None
        module(signal).backward(gradient)

    return step


def take_turns(
    steps: dict[str, Callable[[], None]],
    rounds: int,
    device: torch.device = CPU,
) -> dict[str, float]:
    """Milliseconds of the median turn of each; slow candidates get fewer turns, at least 9."""
    turns: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        warm_up(step, device)
    for turn in range(rounds):
        for name, step in steps.items():
            if turn >= 9 and sum(turns[name]) > 4e3:
                continue
            step()  # warm up: another candidate's step has replaced the content of the cache
            turns[name].append(milliseconds(step, device))
    return {name: statistics.median(each) for name, each in turns.items()}


def bench_shape(shape: tuple[int, ...], rounds: int, device: torch.device) -> dict[str, object]:
    signal = torch.randn(shape, device=device)
    engines = ("matmul", "fft")
    steps = {name: step_of(layer_for(shape, name).to(device), signal) for name in engines}
    steps["convolution"] = step_of(convolution_for(shape).to(device), signal)
    if len(shape) == 4:
        last = signal.to(memory_format=torch.channels_last)
        module = convolution_for(shape).to(device, memory_format=torch.channels_last)
        steps["convolution, channels last"] = step_of(module, last)
    times = take_turns(steps, rounds, device=device)
    convolution = min(ms for name, ms in times.items() if name.startswith("convolution"))
    memory = {engine: peak_megabytes(shape, engine, device) for engine in engines}
    return {
        "shape": shape,
        "milliseconds": {name: round(ms, 2) for name, ms in times.items()},
        "faster_than_fft": round(times["fft"] / times["matmul"], 2),
        "of_convolution": round(times["matmul"] / convolution, 2),
        "peak_megabytes": memory,
        "memory_of_fft": round(memory["matmul"] / memory["fft"], 2),
    }


def peak_megabytes(shape: tuple[int, ...], engine: str, device: torch.device) -> float:
    """Memory that one step adds to a fresh process."""
    command = [sys.executable, __file__, "--device", str(device)]
    command += ["--memory-of", engine, *map(str, shape)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory_of(engine: str, shape: tuple[int, ...], device: torch.device) -> None:
    tiny = (1, 2, *[2] * (len(shape) - 2))
    small = step_of(layer_for(tiny, engine).to(device), torch.randn(tiny, device=device))
    small()  # libraries load on first use and are not the layer's memory
    step = step_of(layer_for(shape, engine).to(device), torch.randn(shape, device=device))
    print(added_megabytes(step, device))


def print_layers(rows: list[dict[str, object]]) -> None:
    print(
        f"{'shape':>20} {'matmul':>9} {'fft':>9} {'conv':>9}"
        f"  {'vs fft':>7} {'of conv':>8} {'memory of fft':>14}"
    )
    for row in rows:
        times = dict(row["milliseconds"])  # type: ignore[call-overload]
        convolution = min(ms for name, ms in times.items() if name.startswith("convolution"))
        shape = "x".join(map(str, row["shape"]))  # type: ignore[call-overload]
        print(
            f"{shape:>20} {times['matmul']:>6.1f} ms {times['fft']:>6.1f} ms"
            f" {convolution:>6.1f} ms  {row['faster_than_fft']:>6}x"
            f" {row['of_convolution']:>7}x {row['memory_of_fft']:>13}x"
        )


def bench_crossover(rounds: int, device: torch.device) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for rank in (1, 4):
        for shape in CROSSOVER_1D + CROSSOVER_2D + CROSSOVER_3D:
            signal = torch.randn(shape, device=device)
            engines = ("matmul", "fft")
            steps = {e: step_of(layer_for(shape, e, rank).to(device), signal) for e in engines}
            times = take_turns(steps, rounds, device=device)
            chosen = layer_for(shape, "auto", rank).choose_engine(shape[2:])
            rows.append({"shape": shape, "rank": rank, "milliseconds": times, "auto": chosen})
            faster = min(times, key=times.__getitem__)
            loss = times[chosen] / times[faster]
            name = "x".join(map(str, shape))
            print(
                f"{name:>20} rank {rank}: matmul {times['matmul']:8.1f} ms,"
                f" fft {times['fft']:8.1f} ms, auto {chosen} ({loss:.2f}x of the faster)",
                flush=True,
            )
    return rows


def network_step(mixer: str, batch: int, size: int, device: torch.device) -> Callable[[], None]:
    from pretrained_2d.networks.backbones import build

    torch.manual_seed(0)
    network = build("convnext_tiny", num_classes=1000, ndim=2, mixer=mixer, image_size=size)
    network.to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.randint(0, 1000, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    step.network = network  # type: ignore[attr-defined]
    return step


def by_products(step: Callable[[], None]) -> Callable[[], None]:
    """The step as training runs it: some gradients of depthwise convolutions are products."""

    def inside() -> None:
        with DepthwiseByProducts():
            step()

    return inside


def kernel_step(network: nn.Module) -> Callable[[], None]:
    """Kernel generation of every S4ND inside, forward and backward."""
    layers = [m for m in network.modules() if isinstance(m, S4ND)]

    def step() -> None:
        for layer in layers:
            shape = [axis.size for axis in layer.axes]
            taps = layer.taps(shape)
            torch.autograd.backward(taps, [torch.ones_like(t) for t in taps])

    return step


def bench_network(
    rounds: int, device: torch.device, batch: int = 8, size: int = 224
) -> dict[str, object]:
    steps = {mixer: network_step(mixer, batch, size, device) for mixer in ("s4nd", "conv")}
    steps["conv, products"] = by_products(steps["conv"])
    steps["kernels"] = kernel_step(steps["s4nd"].network)  # type: ignore[attr-defined]
    with keeping_freed_memory(device):
        times = take_turns(steps, max(rounds // 2, 9), device)
    times["conv"] = min(times["conv"], times.pop("conv, products"))
    ratio, share = times["s4nd"] / times["conv"], times["kernels"] / times["s4nd"]
    print(
        f"training step, batch {batch}, {size} px: S4ND-ConvNeXt-T {times['s4nd']:.0f} ms, "
        f"ConvNeXt-T {times['conv']:.0f} ms, ratio {ratio:.2f}; "
        f"kernel generation {times['kernels']:.0f} ms ({share:.0%})"
    )
    return {"milliseconds": times, "ratio": ratio, "kernel_share": share}


def profile(shape: tuple[int, ...], rounds: int, device: torch.device) -> dict[str, float]:
    """Kernel generation, Toeplitz matrices, products and the rest of one layer's step."""
    from s4nd import conv

    layer, signal = layer_for(shape, "matmul").to(device), torch.randn(shape, device=device)
    axes = shape[2:]
    taps = [t.detach().requires_grad_() for t in layer.taps(axes)]
    matrices = [
        conv.toeplitz(t.detach(), n).requires_grad_() for t, n in zip(taps, axes, strict=True)
    ]

    def kernels() -> None:
        made = layer.taps(axes)
        torch.autograd.backward(made, [torch.ones_like(t) for t in made])

    def toeplitz() -> None:
        for t, n in zip(taps, axes, strict=True):
            made = conv.toeplitz(t, n)
            made.backward(torch.ones_like(made))

    signal.requires_grad_()
    gradient = torch.randn(shape, device=device)

    def products() -> None:
        y = conv.convolve_matmul(signal, matrices, layer.D, layer.mixing)
        y.backward(gradient)

    parts = {"whole step": step_of(layer, signal), "kernel generation": kernels}
    parts |= {"Toeplitz matrices": toeplitz, "products": products}
    times = take_turns(parts, rounds, device=device)
    name = "x".join(map(str, shape))
    print(f"{name}: whole step {times['whole step']:.2f} ms")
    for part in ("kernel generation", "Toeplitz matrices", "products"):
        print(f"  {part:<18} {times[part]:7.2f} ms  {times[part] / times['whole step']:5.0%}")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--crossover", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory-of", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = check_device(args.device)
    if args.memory_of:
        engine, *shape = args.memory_of
        print_memory_of(engine, tuple(map(int, shape)), device)
        return
    results: dict[str, object] = {"threads": args.threads, "torch": torch.__version__}
    results["device"] = device_name(device)
    if args.network:
        results["network"] = bench_network(args.rounds, device)
    elif args.crossover:
        results["crossover"] = bench_crossover(args.rounds, device)
    elif args.profile:
        results["profile"] = {
            "x".join(map(str, shape)): profile(shape, args.rounds, device) for shape in SHAPES
        }
    else:
        rows = list(map(partial(bench_shape, rounds=args.rounds, device=device), SHAPES))
        print_layers(rows)
        results["layers"] = rows
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
