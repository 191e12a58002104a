"""The boring-video test: one image repeated over time must give the 2D logits or features."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopipe.inflation.options import InflationOptions

TOLERANCE = 1e-4  # of the largest logit; float32 rounding stays well below


@dataclass(frozen=True)
class Proof:
    """The result of the boring-video test."""

    difference: float  # largest |3D - 2D|, relative to the largest |2D| logit
    agreement: float  # share of images with the same best class
    exact: bool
    why_not: tuple[str, ...]  # options that prevent an exact result
    num_images: int
    num_frames: int
    image_size: int
    compared: str = "logits"  # or "features", of an encoder
    axis: str = "time"  # or "depth", of volumes

    def __str__(self) -> str:
        """One sentence for people."""
        verdict = "exact" if self.exact else "NOT exact"
        reasons = f" ({'; '.join(self.why_not)})" if self.why_not else ""
        if self.compared == "logits":
            agreement = f"same top-1 on {self.agreement:.0%} of"
        else:
            agreement = "to the 2D features of"
        what, frames = ("video", "frames") if self.axis == "time" else ("volume", "slices")
        return (
            f"boring {what}: {verdict}, largest relative difference {self.difference:.1e}, "
            f"{agreement} {self.num_images} images repeated over {self.num_frames} {frames}"
            f"{reasons}"
        )


@torch.no_grad()
def boring_video_test(
    network: nn.Module,
    video_network: nn.Module,
    options: InflationOptions,
    images: Tensor,
) -> Proof:
    """Compare the 2D network on images (n, channels, h, w) with the other on still videos of them.

    Both are used in eval mode, as for prediction; clips go through one at a time.
    """
    modes = network.training, video_network.training
    network.eval()
    video_network.eval()
    expected = network(images)
    clips = images[:, :, None].expand(-1, -1, options.num_frames, -1, -1)
    actual = torch.cat([video_network(clip) for clip in torch.split(clips, 1)])
    network.train(modes[0])
    video_network.train(modes[1])
    scale = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    difference = float((actual - expected).abs().max() / scale)
    exact = math.isfinite(difference) and difference <= TOLERANCE
    reasons = why_not_exact(options)
    if not exact and not reasons:
        reasons = ("not expected: this network seems to treat the images of a batch jointly",)
    head = getattr(video_network, "head", None)
    same = (actual.argmax(-1) == expected.argmax(-1)).float().mean()
    return Proof(
        difference=difference,
        agreement=float(same),
        exact=exact,
        why_not=reasons,
        num_images=len(images),
        num_frames=options.num_frames,
        image_size=images.shape[-1],
        axis=options.axis,
        compared="features" if isinstance(head, nn.Identity) else "logits",
    )


def still_images(num_images: int, channels: int, image_size: int) -> Tensor:
    """Normalised pictures of coloured blobs and grain, the same ones every time."""
    generator = torch.Generator().manual_seed(6)
    coarse = torch.randn(num_images, channels, 7, 7, generator=generator)
    blobs = functional.interpolate(coarse, size=(image_size, image_size), mode="bicubic")
    grain = torch.randn(num_images, channels, image_size, image_size, generator=generator)
    return blobs + 0.3 * grain


def why_not_exact(options: InflationOptions) -> tuple[str, ...]:
    """The chosen options that prevent a still video from keeping its 2D logits."""
    reasons = []
    box = options.method in ("i3d", "s3d") and options.temporal_kernel > 1
    spread = options.method == "s4nd" and options.start != "identity"
    if (box or spread or options.method == "shift") and options.padding == "zeros":
        reasons.append("padding zeros: the ends of a clip see black frames")
    repeated = options.temporal_kernel if options.method == "i3d" else 1
    if options.scale == "none" and max(repeated, options.temporal_patch) > 1:
        reasons.append("scale none: repeated kernels are not divided by their length")
    if options.method == "s4nd" and options.start == "paper" and options.bidirectional:
        reasons.append("start paper: both directions start at gain 1, so a still video doubles")
    if options.method == "s4nd" and options.start == "random":
        reasons.append("start random: kernels along time are drawn, not fitted to a still video")
    return tuple(reasons)
