"""Video networks run by Hugging Face transformers: `transformers/videomae`.

The library is optional: `pip install videopipe[transformers]`. Nothing is downloaded and no code of
a checkpoint is run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from pretrained_2d.errors import PretrainedError
from pretrained_2d.networks.layers.mixers import Rate
from pretrained_2d.networks.libraries.classifying_layers import seen_by
from pretrained_2d.networks.libraries.library_options import check_library_options


@dataclass(frozen=True)
class VideoFamily:
    """Names in transformers, and how the published weights sample a video."""

    name: str
    frame_rate: float  # frames per second of a clip
    pooled: Literal["first", "mean"]  # token of an encoder
    argument: str = "pixel_values"
    frames: str = "num_frames"  # names of values in its configuration
    size: str = "image_size"


FAMILIES = {
    "videomae": VideoFamily("VideoMAE", 7.5, "mean"),
    "timesformer": VideoFamily("Timesformer", 0.9375, "first"),
    "vivit": VideoFamily("Vivit", 15.0, "first"),
    "vjepa2": VideoFamily(
        "VJEPA2", 4.0, "mean", "pixel_values_videos", "frames_per_clip", "crop_size"
    ),
}

UNUSED = ("predictor", "pooler")  # parts of encoders whose output is not used here


class TransformersVideo(nn.Module):
    """`net(clip, rate) -> logits`; an encoder gives the pooled tokens of its last layer.

    A classifier of transformers has its own head; pooled_classes > 0 gives an encoder a linear
    layer on its pooled tokens, outside of the library's network.
    """

    ndim = 3

    def __init__(
        self, network: nn.Module, family: VideoFamily, *, is_encoder: bool, pooled_classes: int = 0
    ) -> None:
        super().__init__()
        self.network = network
        self.family = family
        self.is_encoder = is_encoder
        self.heads: tuple[str, ...] = () if is_encoder else ("network.classifier",)
        if pooled_classes:
            config: Any = network.config
            self.classifier = nn.Linear(int(config.hidden_size), pooled_classes)
            self.heads = ("classifier",)
        for name in UNUSED if is_encoder else ():
            part = getattr(network, name, None)
            if isinstance(part, nn.Module):  # without gradients, which parallel training asks for
                part.requires_grad_(False)

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class; Identity for an encoder."""
        return self.get_submodule(self.heads[0]) if self.heads else nn.Identity()

    @property
    def num_frames(self) -> int:
        """Frames of a clip."""
        return int(getattr(self.network.config, self.family.frames))

    @property
    def image_size(self) -> int:
        """Height and width of a frame, in pixels."""
        size = getattr(self.network.config, self.family.size)
        return int(size if isinstance(size, int) else size[0])

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, time, height, width) -> (batch, classes), or features; rate is ignored."""
        if self.is_encoder:
            return self.head(self.embed(signal))
        return self._run(signal).logits

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, time, height, width) -> (batch, features): the input of the classifier."""
        if not self.is_encoder:
            return seen_by(self.head, self, signal)
        tokens: Tensor = self._run(signal).last_hidden_state
        return tokens[:, 0] if self.family.pooled == "first" else tokens.mean(1)

    def _run(self, signal: Tensor) -> Any:
        if signal.ndim != 5 or signal.shape[2] != self.num_frames:
            raise ValueError(
                f"{self.family.name} takes clips of {self.num_frames} frames, (batch, 3, "
                f"{self.num_frames}, height, width), got {tuple(signal.shape)}"
            )
        given: dict[str, Any] = {self.family.argument: signal.transpose(1, 2)}
        if self.family.name == "VJEPA2" and self.is_encoder:
            given["skip_predictor"] = True
        return self.network(**given)


def build_transformers(name: str, **options: Any) -> TransformersVideo:
    """A video network of transformers, untrained; with num_classes=0 an encoder.

    pooled_head: an encoder with a linear layer for `num_classes` on its pooled tokens, in place of
    the library's classifier, whose layers have other names.
    """
    check_library_options(f"transformers/{name}", options)
    family = family_of(name)
    if options.pop("ndim", 3) != 3:
        raise PretrainedError(f"transformers/{name} has 3 axes (time, height, width)")
    classes, pooled = options.pop("num_classes", 0), options.pop("pooled_head", False)
    is_encoder = pooled or classes == 0
    options = {key: value for key, value in options.items() if value is not None}
    config = _class(f"{family.name}Config")(**options, num_labels=max(classes, 1))
    kind = "Model" if is_encoder else "ForVideoClassification"
    network = _class(f"{family.name}{kind}")(config)
    return TransformersVideo(
        network, family, is_encoder=is_encoder, pooled_classes=classes if pooled else 0
    )


def read_weights(folder: Path, name: str, *, is_encoder: bool) -> dict[str, Tensor]:
    """The tensors of a folder of transformers, under the names of `build_transformers`."""
    kind = "Model" if is_encoder else "ForVideoClassification"
    network = _class(f"{family_of(name).name}{kind}").from_pretrained(folder, local_files_only=True)
    return {f"network.{own}": tensor for own, tensor in network.state_dict().items()}


def family_of(name: str) -> VideoFamily:
    """The family called `name`; raises PretrainedError that lists them."""
    if name not in FAMILIES:
        raise PretrainedError(
            f"transformers/{name} is not a supported video network; there are {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]


def _class(name: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise PretrainedError(
            "video networks of Hugging Face need the library transformers: "
            "pip install 'videopipe[transformers]'"
        ) from error
    return getattr(transformers, name)
