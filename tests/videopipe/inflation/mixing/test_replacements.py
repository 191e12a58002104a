"""Every option reaches the modules that mix time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from s4nd.axis import AxisConfig
from videopipe.inflation import inflate
from videopipe.inflation.mixing.adapter import TimeAdapter
from videopipe.inflation.mixing.attention import TimeAttention
from videopipe.inflation.mixing.kernel3d import FoldedConv3d
from videopipe.inflation.mixing.shift import TimeShift
from videopipe.inflation.mixing.state_space import StateSpaceKernel, state_space_kernel
from videopipe.inflation.mixing.time_kernel import TapKernel, TimeMixing
from videopipe.inflation.options import InflationOptions

Maker = Callable[..., nn.Module]
# Channels, where they lie, and by how much pooling behind the stem has divided the steps.
PLACES = {"stem.0": (8, 1, 1), "depthwise": (8, 1, 2), "attn": (12, -1, 2)}
FRAMES, LENGTH = 8, 5


def grown(hybrid: Maker, method: str, **options: Any) -> dict[str, nn.Module]:
    """The modules that mix time, by the name of their layer."""
    network = inflate(
        hybrid(), method=method, num_frames=FRAMES, image_size=16, temporal_kernel=LENGTH,
        temporal_pool=("stem",), **options,
    )  # fmt: skip
    found = {}
    for layer in network.plan.layers:
        if layer.role != "pool":
            name = layer.name.replace("stem.0", "stem.spatial.0")  # pooled last
            module = network.network.get_submodule(name)
            found[layer.name] = module if layer.role == "kernel" else module.time
    behind_the_stem = method in ("shift", "attention", "adapter")
    assert found.keys() == PLACES.keys() - ({"stem.0"} if behind_the_stem else set())
    return found


def check_place(name: str, module: Any, padding: str | None = None) -> None:
    assert (module.channel_dim, module.reduction) == PLACES[name][1:], name
    assert padding is None or module.padding == padding


@pytest.mark.parametrize("padding", ["replicate", "zeros"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", ["length", "none"])
def test_i3d(hybrid: Maker, padding: str, causal: bool, scale: str) -> None:
    flat = dict(hybrid().named_parameters())
    modules = grown(hybrid, "i3d", padding=padding, bidirectional=not causal, scale=scale)
    gain = 1 if scale == "length" else LENGTH
    for name in ("stem.0", "depthwise"):
        module: Any = modules[name]
        assert isinstance(module, FoldedConv3d)
        assert (module.padding, module.reduction, module.length) == (
            padding, PLACES[name][2], LENGTH,
        )  # fmt: skip
        assert module.present == (LENGTH - 1 if causal else LENGTH // 2)
        summed = module.weight.sum(2)
        torch.testing.assert_close(summed, gain * flat[f"{name}.weight"])
    module = modules["attn"]  # has no kernel to repeat
    check_place("attn", module, padding)
    assert module.kernel.causal == causal
    torch.testing.assert_close(module.kernel.weight, torch.full((12, LENGTH), gain / LENGTH))


@pytest.mark.parametrize("causal", [False, True])
def test_center(hybrid: Maker, causal: bool) -> None:
    modules: dict[str, Any] = grown(hybrid, "center", padding="zeros", bidirectional=not causal)
    here = LENGTH - 1 if causal else LENGTH // 2
    for name, module in modules.items():
        weight: Tensor = module.kernel.weight if name == "attn" else module.weight.movedim(2, -1)
        assert weight[..., here].abs().sum() > 0
        assert weight.count_nonzero() == weight[..., here].count_nonzero()


@pytest.mark.parametrize(("weights", "kernels"), [("layer", (1, 1, 1)), ("channel", (8, 8, 12))])
@pytest.mark.parametrize("causal", [False, True])
def test_s3d(hybrid: Maker, weights: str, kernels: tuple[int, ...], causal: bool) -> None:
    modules = grown(
        hybrid, "s3d", padding="zeros", temporal_weights=weights, bidirectional=not causal
    )
    for (name, module), count in zip(modules.items(), kernels, strict=True):
        assert isinstance(module, TimeMixing)
        assert isinstance(module.kernel, TapKernel)
        check_place(name, module, "zeros")
        assert module.kernel.causal == causal
        torch.testing.assert_close(module.kernel.weight, torch.full((count, LENGTH), 1 / LENGTH))


@pytest.mark.parametrize("causal", [False, True])
def test_shift_and_attention(hybrid: Maker, causal: bool) -> None:
    for name, module in grown(hybrid, "shift", padding="zeros", bidirectional=not causal).items():
        assert isinstance(module, TimeShift)
        check_place(name, module, "zeros")
        assert module.sizes[:2] == [1, 0 if causal else 1]
    for heads in (None, 2):
        options = {"attention_heads": heads, "bidirectional": not causal}
        for name, module in grown(hybrid, "attention", **options).items():
            assert isinstance(module, TimeAttention)
            check_place(name, module)
            assert (module.causal, module.heads) == (causal, heads or 1)


@pytest.mark.parametrize(("width", "widths"), [(None, (2, 3)), (4, (4, 4))])
@pytest.mark.parametrize("kernel", ["taps", "s4nd"])
def test_adapter(hybrid: Maker, width: int | None, widths: tuple[int, ...], kernel: str) -> None:
    options = {"adapter_width": width, "adapter_kernel": kernel, "padding": "zeros", "state": 6}
    for (name, module), expected in zip(
        grown(hybrid, "adapter", **options).items(), widths, strict=True
    ):
        assert isinstance(module, TimeAdapter)
        assert (module.down.out_features, module.channel_dim) == (expected, PLACES[name][1])
        inside: Any = module.mixing
        assert (inside.channel_dim, inside.reduction, inside.padding) == (
            -1, PLACES[name][2], "zeros",
        )  # fmt: skip
        if kernel == "taps":
            assert inside.kernel.weight.shape == (expected, LENGTH)
            assert 0.2 < inside.kernel.weight.abs().max() <= LENGTH**-0.5
        else:
            assert inside.kernel.axis.config.state == 6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("copies", [2, None])
def test_s4nd(hybrid: Maker, causal: bool, copies: int | None) -> None:
    options = {"state": 6, "basis": "diag-inv", "length": 3.0, "start": "random"}
    modules = grown(
        hybrid, "s4nd", padding="zeros", bidirectional=not causal, copies=copies, **options
    )
    for name, module in modules.items():
        assert isinstance(module, TimeMixing)
        check_place(name, module, "zeros")
        channels, _, reduction = PLACES[name]
        assert isinstance(module.kernel, StateSpaceKernel)
        assert module.kernel.endless == causal
        assert module.kernel.axis.config == AxisConfig(
            FRAMES // reduction, bidirectional=not causal, copies=copies or channels,
            padding="zeros", **options,
        )  # fmt: skip
        like = InflationOptions(bidirectional=not causal)
        assert state_space_kernel(channels, 1, like).endless == causal
