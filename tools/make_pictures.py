"""Draw the pictures of the README and of docs/how_it_works.md into docs/pictures.

python tools/make_pictures.py [FOLDER]
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from pretrained_2d.randomness import derive_seed
from s4nd import S4ND, AxisConfig
from videopipe.dataset.moving_shapes import Motion, draw_scene, frames_of
from videopipe.report.kernels.basis_functions import basis_functions
from videopipe.report.pictures.canvas import COLOURS, Canvas, Picture

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SHAPE_PIXELS, NUM_FRAMES, GAP = 44, 8, 3
DEMO: tuple[Motion, ...] = ("left", "right", "up", "down")


def seeded_layer(channels: int, *axes: AxisConfig) -> S4ND:
    torch.manual_seed(3)
    return S4ND(channels, axes).eval()


def name_panels(canvas: Canvas, horizontal: str) -> None:
    """One title and one horizontal label for small panels side by side."""
    for axes in canvas.all_axes:
        axes.tick_params(labelsize=6)
    canvas.figure.suptitle(canvas.title)
    canvas.figure.supxlabel(horizontal, fontsize=8)


@torch.no_grad()
def planes() -> Picture:
    """Five random kernels of a 2D layer, each with its two profiles."""
    size = 32
    layer = seeded_layer(5, *[AxisConfig(size, basis="diag-lin", length=16, bandlimit=0.3)] * 2)
    kernels = layer.kernel((size, size))  # (channels, lags, lags)
    title = "Kernels of a 2D layer at its start: each is one row times one column"
    with Canvas("planes", title, title, size=(9.6, 2.2), grid=(1, 5)) as canvas:
        for axes, kernel in zip(canvas.all_axes, kernels, strict=True):
            largest = float(kernel.abs().max())
            axes.imshow(kernel, cmap="RdBu", vmin=-largest, vmax=largest, interpolation="nearest")
            axes.set_xticks([0, size - 1, 2 * size - 2], [str(1 - size), "0", str(size - 1)])
            axes.set_yticks([])
            axes.grid(visible=False)
        name_panels(canvas, "lag (pixels)")
    return canvas.picture


@torch.no_grad()
def rates() -> Picture:
    """One kernel, sampled on three grids."""
    size = 64
    layer = seeded_layer(4, AxisConfig(size, basis="diag-lin", length=24, bandlimit=0.15))
    title = "One kernel on three grids: rate 1, 2 and 4"
    with Canvas("rates", title, title, size=(6.4, 2.6)) as canvas:
        for rate, style, colour in (
            (1, "-", COLOURS[0]),
            (2, "o", COLOURS[1]),
            (4, "s", COLOURS[2]),
        ):
            kernel = layer.kernel((size // rate,), rate=rate)[1] / rate
            lags = rate * (np.arange(len(kernel)) - (size // rate - 1))
            canvas.axes.plot(lags, kernel, style, color=colour, ms=4, lw=1.5, label=f"rate {rate}")
        canvas.axes.set(xlabel="lag (samples of the base grid)", ylabel="weight", title=title)
        canvas.axes.legend(fontsize=8)
    return canvas.picture


@torch.no_grad()
def lengths() -> Picture:
    """The paper's ablation: the first basis function at four lengths."""
    title = "The start of a time kernel: length 20, 4, 2, 1 (Δ = 0.1, 0.5, 1, 2)"
    with Canvas("lengths", title, title, size=(9.6, 2.0), grid=(1, 4)) as canvas:
        for axes, length in zip(canvas.all_axes, (20, 4, 2, 1), strict=True):
            config = AxisConfig(15, length=length, start="deterministic")
            kernel = seeded_layer(1, config).kernel((15,))[0]
            axes.fill_between(np.arange(-14, 15), kernel, step="mid", color=COLOURS[0], lw=0)
            axes.set_title(f"length {length}", fontsize=8)
        name_panels(canvas, "lag (steps)")
    return canvas.picture


@torch.no_grad()
def bandlimits() -> Picture:
    """The frequency response of a kernel, with and without a bandlimit."""
    size = 64
    title = "What a random kernel passes, without and with bandlimit"
    with Canvas("bandlimits", title, title, size=(6.4, 2.6)) as canvas:
        for limit, colour in ((None, COLOURS[0]), (0.4, COLOURS[2]), (0.1, COLOURS[1])):
            layer = seeded_layer(64, AxisConfig(size, basis="diag-lin", length=16, bandlimit=limit))
            passed = torch.fft.rfft(layer.kernel((size,))).abs().median(0).values
            cycles = np.arange(len(passed)) / (2 * size - 1)
            name = "none" if limit is None else f"α = {limit:g}, cut at {limit / 2:g}"
            canvas.axes.plot(cycles, passed, color=colour, lw=1.5, label=name)
            if limit is not None:
                canvas.axes.axvline(limit / 2, color=colour, lw=1, ls=":")
        canvas.axes.set(
            xlabel="cycles per sample of the base grid", ylabel="magnitude", title=title
        )
        canvas.axes.legend(fontsize=8)
    return canvas.picture


def motions() -> Image.Image:
    """A row per class of the demo: frames in time. A single column does not show the class."""
    rows = []
    for motion in DEMO:
        scene = draw_scene(np.random.default_rng(derive_seed(5, motion)), SHAPE_PIXELS)
        frames = frames_of(scene, motion, num_frames=NUM_FRAMES, frame_rate=5.0)
        framed = [
            np.pad(frame, ((0, GAP), (0, GAP), (0, 0)), constant_values=255) for frame in frames
        ]
        rows.append(np.concatenate(framed, axis=1))
    half = len(rows) // 2
    left, right = np.concatenate(rows[:half]), np.concatenate(rows[half:])
    between = np.full((len(left), 6 * GAP, 3), 255, np.uint8)
    return Image.fromarray(np.concatenate([left, between, right], axis=1))


DRAWN: tuple[Callable[[], Picture], ...] = (planes, rates, lengths, bandlimits, basis_functions)


def for_pages(svg: str) -> str:
    """On white for dark pages, and with tenths of a point for small files."""

    def shorter(path: re.Match[str]) -> str:
        return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", path[0])

    svg = re.sub(r"\s*\n\s*", "\n", re.sub(r' d="[^"]*"', shorter, svg))
    return re.sub(
        r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=PICTURES)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for draw in DRAWN:
        path = draw().save(folder)
        path.with_suffix(".png").unlink(missing_ok=True)  # pages show the drawing itself
        path.write_text(for_pages(path.read_text()))
        print(path)
    path = folder / "motions.png"
    motions().quantize(128).save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main()
