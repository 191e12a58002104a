"""The basis functions of each initialisation."""

import torch

from s4nd import AxisConfig
from s4nd.axis import AxisStateSpace
from s4nd.kernels.bases import BASES
from videopipe.report.pictures.canvas import Canvas, Picture

SAMPLES = 128
NUM_FUNCTIONS = 5


def basis_functions(prefix: str = "") -> Picture:
    """The slowest few functions of every basis, each scaled to its own largest value."""
    names = [basis for basis in BASES if basis != "hippo"]  # half legs, half fourier
    title = "Basis functions of each initialisation"
    alt = (
        f"{title}: the functions that kernels are sums of before training, the {NUM_FUNCTIONS} "
        "slowest of each, against time in kernel lengths 2/Δ."
    )
    with Canvas(f"{prefix}-bases".lstrip("-"), title, alt, size=(9.6, 5.2), grid=(3, 3)) as canvas:
        for axes, basis in zip(canvas.all_axes, names, strict=False):
            for function in _functions(basis):
                scale = float(function.abs().max()) or 1.0
                axes.plot(torch.arange(SAMPLES) / (SAMPLES / 2), function / scale, lw=1)
            axes.set_title(basis, fontsize=8)
            axes.tick_params(labelsize=6)
        for axes in canvas.all_axes[len(names) :]:
            axes.axis("off")
        canvas.figure.suptitle(title)
        canvas.figure.supxlabel("time / kernel length", fontsize=8)
    return canvas.picture


@torch.no_grad()
def _functions(basis: str) -> torch.Tensor:
    """(functions, samples): the real part of each, C reading off one state at a time."""
    config = AxisConfig(
        2 * SAMPLES,
        state=32,
        basis=basis,
        bidirectional=False,
        length=SAMPLES / 2,
        period=64 * SAMPLES,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        space = AxisStateSpace(config, channels=config.state // 2)
    slowest = (space.A_imag[0].abs() - space.A_real[0].exp() * 1e-3).argsort()
    space.C.zero_()
    for channel, state in enumerate(slowest):
        space.C[0, channel, state, 0] = 1.0
    return space(SAMPLES)[0, :NUM_FUNCTIONS]
