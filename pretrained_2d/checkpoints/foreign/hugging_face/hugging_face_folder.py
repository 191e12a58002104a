"""Folders of Hugging Face transformers: network, weights, labels and preprocessing from its files.

Networks of images need only JSON and tensors; those of videos are run by the library itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.checkpoints.foreign.hugging_face.hugging_face_names import timm_tensors
from pretrained_2d.checkpoints.foreign.hugging_face.hugging_face_networks import timm_network
from pretrained_2d.checkpoints.foreign.preprocessing import DefaultInputs, crop_to_resize
from pretrained_2d.checkpoints.foreign.tensor_files.files import TensorFile
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.libraries.library_options import ALLOWED
from pretrained_2d.networks.libraries.transformers_video import FAMILIES, read_weights

_BICUBIC = 3  # the number of the filter in Pillow
_PREPROCESSORS = ("video_preprocessor_config", "preprocessor_config")
_TOWERS = {"clip": "clip_vision_model", "siglip": "siglip_vision_model"}


@dataclass(frozen=True)
class HuggingFaceFolder:
    """The content of `config.json` and `preprocessor_config.json`."""

    model_type: str
    architecture: str  # of timm; transformers/<name> for a network of videos
    options: dict[str, Any]
    labels: tuple[str, ...] | None
    preprocessor: Mapping[str, Any]

    def tensors(self, file: TensorFile) -> TensorFile:
        """The weights under the names of the network."""
        if self.model_type in FAMILIES:
            is_encoder = self.options["num_classes"] == 0
            found = read_weights(file.path.parent, self.model_type, is_encoder=is_encoder)
            return replace(file, tensors=found)
        return replace(file, tensors=timm_tensors(self.model_type, file.tensors))

    def inputs(self, default: DefaultInputs) -> DefaultInputs:
        """The preprocessing of the folder; values that it does not give stay as they are."""
        preprocessing = _preprocessing(self.preprocessor, self.options, default.preprocessing)
        return replace(default, preprocessing=preprocessing, labels=self.labels)


def read_hugging_face(path: Path) -> HuggingFaceFolder | None:
    """The description of a folder of transformers; None for anything else.

    Raises CheckpointError for kinds of networks that are not read.
    """
    content = _json(path / "config.json") if path.is_dir() else None
    if content is None or "model_type" not in content:
        return None
    kind = _TOWERS.get(content["model_type"], content["model_type"])
    config = {**content, **content.get("vision_config", {}), "model_type": kind}
    names = [str(name) for name in content.get("architectures") or ()]
    if kind in FAMILIES:
        return _video(path, content, names)
    architecture, options = timm_network(config)
    is_classifier = any(name.endswith("ForImageClassification") for name in names)
    # DINOv2 classifies class token and mean patch together, which no network of timm does.
    if not is_classifier or kind.startswith("dinov"):
        options["num_classes"] = 0
    labels = _labels(content) if options.get("num_classes") != 0 else None
    preprocessor = _json(path / "preprocessor_config.json") or {}
    return HuggingFaceFolder(kind, architecture, options, labels, preprocessor)


def _video(path: Path, config: Mapping[str, Any], names: list[str]) -> HuggingFaceFolder:
    """A video network, which transformers itself runs."""
    kind = config["model_type"]
    allowed = ALLOWED["transformers"]
    options = {name: value for name, value in config.items() if name in allowed}
    is_classifier = any(name.endswith("ForVideoClassification") for name in names)
    options["num_classes"] = len(config.get("id2label") or (0, 1)) if is_classifier else 0
    labels = _labels(config) if is_classifier else None
    found = (_json(path / f"{name}.json") for name in _PREPROCESSORS)
    preprocessor = next((content for content in found if content is not None), {})
    return HuggingFaceFolder(kind, f"transformers/{kind}", options, labels, preprocessor)


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON ({error}); download it again") from error
    return content if isinstance(content, dict) else None


def _labels(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """`id2label`, unless it has only the names that transformers makes up."""
    names = config.get("id2label") or {}
    labels = tuple(str(names[key]) for key in sorted(names, key=int))
    made_up = all(label == f"LABEL_{number}" for number, label in enumerate(labels))
    return None if made_up or len(set(labels)) < len(labels) else labels


def _preprocessing(
    found: Mapping[str, Any], options: Mapping[str, Any], default: Preprocessing
) -> Preprocessing:
    size, crop = _side(found.get("size")), _side(found.get("crop_size"))
    crops = found.get("do_center_crop", crop is not None) and crop is not None
    image_size = (crop if crops else size) or options.get("image_size") or default.image_size
    resize = size or image_size
    if "crop_pct" in found and not crops:
        resize = crop_to_resize(image_size, found["crop_pct"])
    whole = isinstance(found.get("size"), Mapping) and "height" in found["size"] and not crops
    resample = found.get("resample")
    return replace(
        default,
        image_size=image_size,
        resize=max(resize, image_size),
        mean=tuple(found.get("image_mean", default.mean)),
        std=tuple(found.get("image_std", default.std)),
        interpolation=default.interpolation
        if resample is None
        else "bicubic"
        if resample == _BICUBIC
        else "bilinear",
        squash=whole,
    )


def _side(size: Any) -> int | None:
    """The side in pixels of a size as transformers writes it."""
    if isinstance(size, Mapping):
        size = size.get("shortest_edge", size.get("height"))
    return int(size) if isinstance(size, int | float) else None
