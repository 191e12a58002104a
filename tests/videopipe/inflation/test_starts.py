"""Initial time kernels of folded networks, and the meaning of older checkpoints."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from videopipe.inflation import inflate
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.planning.layer_plan import InflationPlan

Maker = Callable[..., Any]


def grown(hybrid: Maker, **options: Any) -> FoldedNetwork:
    return inflate(hybrid(), num_frames=6, image_size=16, state=8, **options).eval()


def test_default_start_gives_every_time_parameter_a_gradient_at_once(hybrid: Maker) -> None:
    network = grown(hybrid).train()
    network(torch.randn(2, 3, 6, 16, 16)).square().sum().backward()
    for name, parameter in network.network.depthwise.time.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("frames", [6, 3, 12])
def test_trained_kernels_keep_a_still_video_at_any_rate(hybrid: Maker, frames: int) -> None:
    """The subtraction at lag 0 is part of the kernel, not of its initial values."""
    network = grown(hybrid)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if ".time." in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
        image = torch.randn(2, 3, 16, 16)
        expected = network(image[:, :, None].expand(-1, -1, 1, -1, -1))
        still = image[:, :, None].expand(-1, -1, frames, -1, -1)
        actual = network(still, (6 / frames, 1.0, 1.0))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_a_checkpoint_without_a_start_has_that_of_its_version(hybrid: Maker) -> None:
    stored = grown(hybrid).plan.to_json()
    assert stored["options"]["start"] == "difference"
    for key in ("start", "basis", "length"):
        del stored["options"][key]
    options = InflationPlan.from_json(stored).options
    assert (options.start, options.basis, options.length) == ("identity", "fourier", 1.0)


def test_identity_start_trains_its_kernels(hybrid: Maker) -> None:
    network = grown(hybrid, start="identity", basis="fourier", length=1.0).train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(2):  # C moves first, and lets A, B and the step follow
        optimiser.zero_grad()
        network(torch.randn(2, 3, 6, 16, 16)).square().sum().backward()
        optimiser.step()
    axis = network.network.depthwise.time.kernel.axis
    for parameter in axis.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ({"method": "none"}, True),
        ({"method": "center"}, True),
        ({"method": "adapter"}, True),
        ({"method": "adapter", "adapter_kernel": "s4nd"}, True),
        ({"method": "attention"}, True),
        ({"method": "s4nd", "start": "identity"}, True),
        ({"method": "s4nd"}, False),
        ({"method": "i3d"}, False),
        ({"method": "s3d"}, False),
        ({"method": "shift"}, False),
    ],
)
def test_which_methods_start_as_the_mean_of_the_frames(
    hybrid: Maker, options: dict[str, Any], exact: bool
) -> None:
    network = inflate(hybrid(), num_frames=6, image_size=16, state=8, **options).eval()
    clip = torch.randn(2, 3, 6, 16, 16)
    with torch.no_grad():
        frames = torch.stack([hybrid()(frame) for frame in clip.unbind(2)]).mean(0)
        same = torch.allclose(network(clip), frames, rtol=1e-4, atol=1e-5)
    assert same == exact
