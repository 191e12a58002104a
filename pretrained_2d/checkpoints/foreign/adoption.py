"""Adopt a foreign checkpoint: write its weights and preprocessing to a checkpoint folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from pretrained_2d import atomic
from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.checkpoints.foreign.heads import HeadChoice
from pretrained_2d.checkpoints.foreign.hugging_face.hugging_face_folder import (
    HuggingFaceFolder,
    read_hugging_face,
)
from pretrained_2d.checkpoints.foreign.jax_arrays import is_jax_archive, read_jax_archive
from pretrained_2d.checkpoints.foreign.preprocessing import (
    DEFAULTS,
    DefaultInputs,
    crop_to_resize,
    default_inputs,
    has_image_size,
)
from pretrained_2d.checkpoints.foreign.tensor_files.files import TensorFile, read_tensors
from pretrained_2d.checkpoints.foreign.weights import ForeignReport, load_foreign
from pretrained_2d.checkpoints.reference import from_reference, recognise
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import BACKBONES
from pretrained_2d.networks.libraries.transformers_video import TransformersVideo

REPORT = "adoption.json"


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The file to adopt, and settings it does not contain (None: the architecture's default)."""

    checkpoint: Path
    architecture: str = ""  # may be left out for a folder of transformers, which names it
    head: HeadChoice | None = None  # new, drop, strict; None: the file's where it fits, else new
    entry: str | None = None  # which weights, if the file has several sets (state_dict_ema, …)
    labels: tuple[str, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    image_size: int | None = None  # pixels
    crop: float | None = None  # fraction of the short side that the crop takes
    interpolation: Literal["bilinear", "bicubic"] | None = None
    squash: bool | None = None
    num_frames: int | None = None
    clip_seconds: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of the architecture


def adopt(request: Adoption, out: Path) -> tuple[ModelCard, ForeignReport]:
    """Write the checkpoint folder `out`, with the whole report in `adoption.json` beside it."""
    _check(request)
    folder = None if request.architecture else read_hugging_face(request.checkpoint)
    if folder is not None:
        request = _with_network(request, folder)
    elif not request.architecture:
        raise CheckpointError(
            f"{request.checkpoint} does not name its network: give the architecture "
            "(`videopipe models` lists them)"
        )
    if is_jax_archive(request.checkpoint):
        file = read_jax_archive(request.checkpoint, request.architecture, _shape_options(request))
    else:
        file = read_tensors(request.checkpoint, request.entry)
    if folder is not None:
        file = folder.tensors(file)
    network, options, report = _load(request, file)
    default = default_inputs(request.architecture, network, file.path.name)
    if folder is not None:
        default = folder.inputs(default)
    card = _card(request, network, options, default, report)
    save_checkpoint(out, network, card)
    atomic.write_text(out / REPORT, json.dumps(asdict(report), indent=2) + "\n")
    return card, report


def _with_network(request: Adoption, folder: HuggingFaceFolder) -> Adoption:
    """The request with the network of the folder; settings of the request take precedence."""
    options = dict(folder.options)
    if request.labels is not None:
        if folder.architecture.startswith("transformers/") and options["num_classes"] == 0:
            raise CheckpointError(
                f"{request.checkpoint} is an encoder of videos; leave labels out: finetune and "
                "probe give it a head for the labels of their data"
            )
        options.pop("num_classes", None)
    if request.image_size is not None and "image_size" in options:
        options["image_size"] = request.image_size
    options |= request.options
    return replace(request, architecture=folder.architecture, options=options)


def _shape_options(request: Adoption) -> dict[str, Any]:
    """Options of the network at the image size of the request, if one is given."""
    options = dict(request.options)
    if request.image_size is not None and has_image_size(request.architecture):
        options.setdefault("image_size", request.image_size)
    return options


def _check(request: Adoption) -> None:
    for name in ("mean", "std"):
        values = getattr(request, name)
        if values is not None and (max(values) > 1 or min(values) < 0):
            raise CheckpointError(
                f"{name} is {values}; give numbers for values in [0, 1], such as "
                "0.485,0.456,0.406 (divide by 255 if they are for values in [0, 255])"
            )
    if request.std is not None and min(request.std) == 0:
        raise CheckpointError(f"std is {request.std}; a deviation cannot be 0")
    if request.head == "drop" and request.labels is not None:
        raise CheckpointError("labels are given, but head is drop; a network without head has none")
    if request.crop is not None and not 0 < request.crop <= 1:
        raise CheckpointError(f"crop is {request.crop}; give the fraction, such as 0.875")
    for name in ("image_size", "num_frames", "clip_seconds"):
        value = getattr(request, name)
        if value is not None and value <= 0:
            raise CheckpointError(f"{name} is {value}; it must be above 0")


def _load(request: Adoption, file: TensorFile) -> tuple[nn.Module, dict[str, Any], ForeignReport]:
    options = dict(request.options)
    if request.labels is not None:
        options.setdefault("num_classes", len(request.labels))
    backbone = BACKBONES.get(request.architecture)
    if backbone is not None:
        known = {entry.name for entry in fields(backbone.config)}
        for name, value in (
            ("image_size", request.image_size),
            ("num_frames", request.num_frames),
        ):
            if value is not None and name in known:
                options.setdefault(name, value)
    else:
        options = _shape_options(request) | options
    recognised = recognise(file.tensors)
    if backbone is None or recognised is None or recognised[0] != backbone.reference:
        return load_foreign(file, request.architecture, options, request.head)
    return _load_reference(request, file, recognised, options)


def _load_reference(
    request: Adoption, file: TensorFile, recognised: tuple[str, int], options: dict[str, Any]
) -> tuple[nn.Module, dict[str, Any], ForeignReport]:
    """A network saved by the public S4ND code: its shape is read off the file."""
    kind, ndim = recognised
    backbone = BACKBONES[request.architecture]
    size = options.pop("image_size", None) or backbone.config(**backbone.fixed).image_size
    frames = options.pop("num_frames", None) or DEFAULTS[request.architecture].num_frames or 1
    asked, _ = options.pop("num_classes", None), options.pop("ndim", None)
    sizes = (frames, size, size)[3 - ndim :]
    network = from_reference(file.tensors, kind, input_size=sizes, **options)
    config: Any = network.config
    found = asdict(config)
    if asked not in (None, found["num_classes"]):
        raise CheckpointError(
            f"the file distinguishes {found['num_classes']} classes, but {asked} are asked for"
        )
    report = ForeignReport(
        file=file.path.name,
        entry=file.entry,
        other_entries=file.other_entries,
        convention="the names of the public S4ND code",
        matched=len(file.tensors),
    )
    return network, found, report


def _card(
    request: Adoption,
    network: nn.Module,
    options: Mapping[str, Any],
    default: DefaultInputs,
    report: ForeignReport,
) -> ModelCard:
    ndim: int = network.ndim  # type: ignore[assignment]
    labels = request.labels
    has_its_head = not any(name.startswith("network.") for name in report.new)
    if labels is None and has_its_head and len(default.labels or ()) == options["num_classes"]:
        labels = default.labels
    if ndim == 2 and (request.num_frames or request.clip_seconds):
        raise CheckpointError(
            f"{request.architecture} is a network of images: frames and clip seconds are given to "
            "its inflated form"
        )
    fixed = network.num_frames if isinstance(network, TransformersVideo) else None
    if fixed is not None and request.num_frames not in (None, fixed):
        raise CheckpointError(
            f"num_frames is {request.num_frames}, but {request.architecture} of this folder takes "
            f"clips of {fixed} frames; leave it out, clip_seconds sets their duration"
        )
    return ModelCard(
        architecture=request.architecture,
        options={name: value for name, value in options.items() if name != "ndim"},
        ndim=ndim,
        labels=labels,
        preprocessing=_preprocessing(
            request, default.preprocessing, int(options.get("in_chans") or 3)
        ),
        num_frames=(request.num_frames or default.num_frames) if ndim == 3 else None,
        clip_seconds=(request.clip_seconds or default.clip_seconds) if ndim == 3 else None,
        provenance={
            "method": "adopt",
            "file": request.checkpoint.name,
            "entry": report.entry,
            "matched_by": report.convention,
            "newly_initialised": list(report.new),
            "left_out": list(report.left_out),
        },
    )


def _preprocessing(request: Adoption, default: Preprocessing, channels: int) -> Preprocessing:
    size = request.image_size or default.image_size
    crop = request.crop or default.image_size / default.resize
    return replace(
        default,
        image_size=size,
        resize=crop_to_resize(size, crop),
        mean=_per_channel("mean", request.mean, default.mean, channels),
        std=_per_channel("std", request.std, default.std, channels),
        interpolation=request.interpolation or default.interpolation,
        squash=default.squash if request.squash is None else request.squash,
    )


def _per_channel(
    name: str, given: tuple[float, ...] | None, default: tuple[float, ...], channels: int
) -> tuple[float, ...]:
    """One number per channel; networks of other than three channels get the mean of the default."""
    if given is None:
        return default if len(default) == channels else (sum(default) / len(default),) * channels
    if len(given) != channels:
        raise CheckpointError(
            f"{name} is {given}; give one number for each of the {channels} channels"
        )
    return given
