"""The rates that a probe passes to its backbone and to its head."""

import pytest
import torch
from torch import Tensor, nn

from videopipe.probing.network import FeatureShape, ProbedNetwork, StepFeatures
from videopipe.probing.probe_config import HeadConfig
from videopipe.probing.temporal_heads import TemporalHead

HEAD = HeadConfig(width=8, state=8)


class Backbone(nn.Module):
    """Features of a frame or a window: channel means and the mean of its last frame."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.seen: list[tuple[tuple[int, ...], object]] = []

    def embed(self, signal: Tensor, rate: object) -> Tensor:
        self.seen.append((tuple(signal.shape), rate))
        last = signal if signal.ndim == 4 else signal[:, :, -1]
        means = signal.flatten(2).mean(2)  # (batch, 3)
        return torch.cat((means, last.mean((1, 2, 3))[:, None]), 1)


@pytest.mark.parametrize(("rate", "inner"), [(2.0, 2.0), ((2.0, 1.0, 0.5), (1.0, 0.5))])
def test_an_image_backbone_gets_the_rate_of_space_and_the_head_that_of_time(
    rate: object, inner: object
) -> None:
    backbone, head = Backbone(), TemporalHead(4, 6, 2, HEAD).eval()
    network = ProbedNetwork(backbone, FeatureShape(4, 6, 1, 2), head)
    clip = torch.randn(2, 3, 3, 5, 5)
    with torch.no_grad():
        logits, embedded = network(clip, rate), network.embed(clip, rate)
        frames = torch.stack([backbone.embed(clip[:, :, n], inner) for n in range(3)], -1)
        torch.testing.assert_close(logits, head(frames, 2.0))
        torch.testing.assert_close(embedded, head.embed(frames, 2.0))
        assert not torch.allclose(logits, head(frames))
    assert backbone.seen[0] == ((6, 3, 5, 5), inner)


@pytest.mark.parametrize(("rate", "window"), [(1.0, 4), (2.0, 2), ((2.0, 1.0, 1.0), 2), (0.5, 8)])
def test_a_window_of_a_video_backbone_keeps_its_duration(rate: object, window: int) -> None:
    backbone, head = Backbone(), TemporalHead(4, 3, 2, HEAD).eval()
    network = ProbedNetwork(backbone, FeatureShape(4, 3, 4, 3), head)
    clip = torch.randn(2, 3, 3 * window + 1, 5, 5)  # the last frame fills no window
    with torch.no_grad():
        logits = network(clip, rate)
        parts = [clip[:, :, n * window : (n + 1) * window] for n in range(3)]
        steps = torch.stack([backbone.embed(part, rate) for part in parts], -1)
        torch.testing.assert_close(logits, head(steps))  # steps last as long as in training
    assert backbone.seen[0] == ((6, 3, window, 5, 5), rate)


def test_a_clip_shorter_than_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="a clip of 3 frames is shorter than a window of 4"):
        StepFeatures(Backbone(), 3, 4)(torch.zeros(1, 3, 3, 5, 5))
