"""A causal network frame by frame gives what it gives for one clip of all frames so far."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from videopipe.inflation import InflationOptions
from videopipe.inflation.folded import inflate
from videopipe.inflation.options import InflationError
from videopipe.inflation.stream import Stream

CAUSAL: dict[str, dict[str, Any]] = {
    "s4nd": {"method": "s4nd", "basis": "diag-lin", "state": 8, "start": "random", "length": 4.0},
    "zeros": {"method": "s4nd", "basis": "diag-lin", "state": 8, "padding": "zeros"},
    "i3d": {"method": "i3d"},
    "s3d": {"method": "s3d", "temporal_weights": "channel"},
    "center": {"method": "center"},
    "shift": {"method": "shift"},
    "adapter": {"method": "adapter"},
    "none": {"method": "none"},
    "patch": {"method": "i3d", "temporal_patch": 2},
}


def network(hybrid: Callable[..., nn.Module], **options: Any) -> nn.Module:
    """Inflated, with weights away from their symmetric starts."""
    settings = {"num_frames": 8, "clip_seconds": 1.0, "bidirectional": False, **options}
    video = inflate(hybrid(), InflationOptions(**settings)).double().eval()
    with torch.no_grad():
        for parameter in video.parameters():
            parameter.add_(torch.randn_like(parameter) / 16)
    return video


def clip_of(frames: int) -> Tensor:
    return torch.randn(2, 3, frames, 12, 12, dtype=torch.float64)


@pytest.mark.parametrize("case", CAUSAL)
@torch.no_grad()
def test_each_step_equals_the_clip_up_to_it(hybrid, case: str) -> None:
    video, clip = network(hybrid, **CAUSAL[case]), clip_of(8)
    patch = CAUSAL[case].get("temporal_patch", 1)
    stream = Stream(video)
    for count in range(1, 9):
        logits = stream(clip[:, :, count - 1])
        if count % patch == 0:
            expected = video(clip[:, :, :count])
            torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-8)
        elif count < patch:
            assert logits is None
    several = Stream(video)
    torch.testing.assert_close(several(clip), logits, rtol=1e-9, atol=1e-9)
    several.reset()
    assert several.states == []
    torch.testing.assert_close(several(clip), logits, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_the_rate_reaches_the_recurrence_and_streams_do_not_mix(hybrid) -> None:
    video, clip = network(hybrid, **CAUSAL["s4nd"]), clip_of(6)
    slow, fast = Stream(video, rate=0.5), Stream(video)
    for number in range(6):  # in turns, on one network
        half, whole = slow(clip[:, :, number]), fast(clip[:, :, number])
    torch.testing.assert_close(half, video(clip, 0.5), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(whole, video(clip), rtol=1e-6, atol=1e-8)
    assert not torch.allclose(half, whole)


def test_what_cannot_be_streamed_says_why(hybrid) -> None:
    for options, reason in (
        ({"method": "i3d", "bidirectional": True}, "with future frames"),
        ({"basis": "legs", "state": 8}, "basis 'legs' has a low-rank part; choose a diag"),
        ({"method": "attention"}, "attention along time needs all earlier frames"),
    ):
        with pytest.raises(InflationError, match=reason):
            Stream(network(hybrid, **options))
    with pytest.raises(InflationError, match="only networks with folded frames"):
        Stream(nn.Linear(1, 1))
    stream = Stream(network(hybrid, method="i3d"))
    stream(clip_of(1)[:, :, 0])
    with pytest.raises(ValueError, match="began with 2 videos in a batch, got a frame of 1"):
        stream(clip_of(1)[:1, :, 0])
    stream.video.train()
    with pytest.raises(ValueError, match="training mode"):
        stream(clip_of(1)[:, :, 0])
