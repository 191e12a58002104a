"""A causally inflated network gives the same logits frame by frame as for the whole clip."""

from typing import Any

import pytest
import timm
import torch
from torch import nn

from pretrained_2d.networks.backbones import build
from videopipe.inflation import FoldedNetwork, InflationOptions, Stream, inflate
from videopipe.inflation.operation import inflate_network
from videopipe.inflation.options import InflationError

PIXELS, FRAMES = 32, 7
FAMILIES: dict[str, dict[str, Any]] = {
    "test_resnet": {},
    "test_vit": {"img_size": PIXELS},
    "test_convnext": {},
}
CAUSAL: dict[str, dict[str, Any]] = {
    "s4nd": {"method": "s4nd"},
    "s4nd, random start": {"method": "s4nd", "start": "random", "length": None},
    "i3d": {"method": "i3d"},
    "s3d": {"method": "s3d", "temporal_weights": "channel"},
    "center": {"method": "center"},
    "shift": {"method": "shift"},
    "adapter": {"method": "adapter"},
    "adapter, s4nd": {"method": "adapter", "adapter_kernel": "s4nd"},
    "none": {"method": "none"},
}


def randomise_initial_weights(network: nn.Module) -> None:
    """Draw weights that start at zero or as the identity, which would hide time."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(("gamma", "time.weight")) or ".time." in name:
                parameter.add_(0.1 * torch.randn_like(parameter))


def causal(name: str, **options: Any) -> FoldedNetwork:
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=5, **FAMILIES[name])
    shape = {"num_frames": FRAMES, "image_size": PIXELS, "state": 8, "bidirectional": False}
    video = inflate(network, **shape | options).eval()
    randomise_initial_weights(video)
    return video


@pytest.mark.parametrize(
    ("name", "padding"), [*((name, "replicate") for name in FAMILIES), ("test_resnet", "zeros")]
)
@pytest.mark.parametrize("method", CAUSAL)
@torch.no_grad()
def test_stream_equals_clip(name: str, method: str, padding: str) -> None:
    video = causal(name, padding=padding, **CAUSAL[method])
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    stream = Stream(video)
    sizes = []
    for step, frame in enumerate(clip.unbind(2)):
        logits = stream(frame)
        sizes.append(sum(state.numel() for state in stream.states))
        if step in (0, 2, FRAMES - 1):  # every prefix of the video, not only the whole
            expected = video(clip[:, :, : step + 1])
            tolerance = 1e-4 * float(expected.abs().max())
            torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)
    assert len(set(sizes)) == 1  # constant memory


@torch.no_grad()
def test_a_long_stream_equals_a_long_clip() -> None:
    """The kernel is longer than the clip of the inflation, and than twice its length."""
    video = causal("test_resnet")
    clip = torch.randn(1, 3, 3 * FRAMES, PIXELS, PIXELS)
    torch.testing.assert_close(Stream(video)(clip), video(clip), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_patches_rates_resets_and_two_streams() -> None:
    video = causal("test_resnet", temporal_patch=2, num_frames=8)
    clip, other = torch.randn(2, 1, 3, 8, PIXELS, PIXELS)
    stream, second = Stream(video, rate=2.0), Stream(video)
    assert stream(clip[:, :, 0]) is None  # half a patch
    second(other)
    logits = stream(clip[:, :, 1:])
    torch.testing.assert_close(logits, video(clip, 2.0), rtol=1e-4, atol=1e-5)
    assert stream.num_steps == 4
    stream.reset()
    assert stream.logits is None
    torch.testing.assert_close(stream(other), video(other, 2.0), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_later_frames_do_not_change_earlier_logits() -> None:
    for method, options in CAUSAL.items():
        video = causal("test_resnet", **options)
        clip = torch.randn(1, 3, FRAMES, PIXELS, PIXELS)
        changed = clip.clone()
        changed[:, :, 4:] = 0
        level = [video.levels[-1].name]
        before, after = (video.features(each, level)[0][:, :, :4] for each in (clip, changed))
        torch.testing.assert_close(before, after, msg=method)


def test_networks_that_need_the_future_name_the_option() -> None:
    with pytest.raises(InflationError, match=r"bidirectional=False \(--no-bidirectional\)"):
        Stream(causal("test_resnet", bidirectional=True))
    with pytest.raises(InflationError, match="attention along time needs all earlier frames"):
        Stream(causal("test_resnet", method="attention"))
    with pytest.raises(InflationError, match="temporal_pool needs pairs of steps"):
        Stream(causal("test_resnet", temporal_pool=("layer2",)))
    with pytest.raises(InflationError, match="only networks with folded frames can"):
        Stream(nn.Identity())


@torch.no_grad()
def test_a_network_of_maps_is_not_streamed() -> None:
    video = causal("test_resnet", method="s3d")
    video.network.global_pool, video.network.fc = nn.Identity(), nn.Identity()
    with pytest.raises(InflationError, match="stream a network of logits or features"):
        Stream(video)(torch.randn(1, 3, PIXELS, PIXELS))


def test_our_own_networks_stream_when_they_are_folded() -> None:
    from pretrained_2d.checkpoints.card import ModelCard, Preprocessing

    options = {"depths": (1, 1, 1, 1), "widths": (8, 8, 8, 8), "mixer": "s4nd", "image_size": 32}
    card = ModelCard(
        architecture="convnext_tiny",
        options={**options, "num_classes": 5},
        preprocessing=Preprocessing(image_size=32, resize=32),
    )
    network = build(card.architecture, **card.options).eval()
    choices = InflationOptions(
        num_frames=4, state=8, bidirectional=False, layers="re:.", method="s4nd"
    )
    video = inflate_network(network, card, choices).network
    clip = torch.randn(1, 3, 4, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(Stream(video)(clip), video(clip), rtol=1e-4, atol=1e-5)


def test_a_stream_refuses_training_and_other_batches() -> None:
    video = causal("test_resnet")
    stream = Stream(video)
    stream(torch.randn(2, 3, PIXELS, PIXELS))
    with pytest.raises(ValueError, match="began with 2 videos in a batch, got a frame of 1"):
        stream(torch.randn(1, 3, PIXELS, PIXELS))
    with pytest.raises(ValueError, match=r"call eval\(\) on it first"):
        Stream(video.train())(torch.randn(1, 3, PIXELS, PIXELS))
