"""Inflating a checkpoint folder: network, proof, report, and the folder that holds them."""

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path

from torch import nn

from pretrained_2d import atomic
from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.randomness import seeded
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.layer_report import InflationReport, LayerRow, make_rows
from videopipe.inflation.new_head import with_new_head
from videopipe.inflation.options import InflationError, InflationOptions
from videopipe.inflation.planning.layer_plan import InflationPlan, input_channels, make_plan
from videopipe.inflation.proof import Proof, boring_video_test, still_images
from videopipe.inflation.rebuild import VideoNetwork, can_rebuild, rebuild
from videopipe.models import load_model

PROOF_IMAGES = 2


def inflate_checkpoint(
    folder: Path | str,
    out: Path | str,
    options: InflationOptions,
    *,
    num_classes: int | None = None,
    labels: tuple[str, ...] | None = None,
    seed: int = 0,
) -> InflationReport:
    """Read a 2D checkpoint, write the video checkpoint with `inflation.json` and `inflation.md`.

    Without `num_classes` and `labels` the head and its labels stay. Nothing is written on error.
    Raises InflationError (or CheckpointError for the folder itself).
    """
    if Path(out).resolve() == Path(folder).resolve():
        raise InflationError(f"{out} is the 2D checkpoint itself; write to another folder")
    network, card = load_model(folder)
    if card.ndim != 2:
        raise InflationError(
            f"{folder} already holds a video network ({card.architecture}, "
            f"{card.num_frames or '?'} frames): inflate the 2D checkpoint it came from"
        )
    if labels is not None and num_classes not in (None, len(labels)):
        raise InflationError(f"num_classes is {num_classes}, but {len(labels)} labels are given")
    before = network.state_dict()
    learnt = {name for name, _ in network.named_parameters()}
    new: frozenset[str] = frozenset()
    with seeded("inflate", seed):
        if labels is not None or num_classes is not None:
            classes = len(labels) if labels is not None else num_classes
            assert classes is not None
            network, card, new = with_new_head(network, card, classes)
            card = replace(card, labels=labels)
        video = inflate_network(network, card, options)
    proof = _prove(network, video.network, card, options)
    origin = {name: source for name, source in video.origin.items() if source not in new}
    after_learnt = _learnt(video)
    report = InflationReport(
        architecture=card.architecture,
        way=video.way,
        options=options,
        logits=video.logits,
        parameters_before=sum(before[name].numel() for name in learnt),
        parameters_after=sum(parameter.numel() for parameter in video.network.parameters()),
        proof=proof,
        rows=(
            *make_rows(before, video.state, origin, learnt | after_learnt, video.layer_of),
            *(LayerRow(name, "new", {}, {}, 0, 0) for name in video.parameter_free),
        ),
    )
    provenance = {
        "made_by": "inflate",
        "parent": dict(card.provenance),
        "method": options.method,
        "way": video.way,
        "boring_video": asdict(proof),
    }
    _write(Path(out), video.network, replace(video.card, provenance=provenance), report)
    return report


def inflate_network(network: nn.Module, card: ModelCard, options: InflationOptions) -> VideoNetwork:
    """The video network of a 2D network and its card; the 2D network stays as it is."""
    if can_rebuild(card, options):
        return rebuild(network, card, options)
    image_size, expected = card.preprocessing.image_size, len(card.preprocessing.mean)
    channels = input_channels(network, image_size)
    if channels != expected:
        raise InflationError(
            f"{card.architecture} takes images of {channels} channels, but the checkpoint's mean "
            f"and std are for {expected}: adopt the weights with a matching mean and std"
        )
    plan = make_plan(network, options, image_size)
    folded = FoldedNetwork(copy.deepcopy(network), plan).eval()
    names = {name: _display_name(name, plan) for name in folded.state_dict()}
    state = {names[name]: tensor for name, tensor in folded.state_dict().items()}
    known = network.state_dict().keys()
    return VideoNetwork(
        folded,
        replace(
            card,
            ndim=3,
            num_frames=options.num_frames,
            clip_seconds=options.clip_seconds,
            inflation=plan.to_json(),
        ),
        way="folded",
        logits="averaged over time after the head",
        state=state,
        origin={name: name for name in state if name in known},
        layer_of=lambda name: _layer_of(name, network, plan),
        parameter_free=tuple(
            f"{layer.name}.time"
            for layer in plan.layers
            if layer.role == "mixing" and options.method == "shift"
        ),
    )


def _display_name(name: str, plan: InflationPlan) -> str:
    """Without the wrapper and without `spatial` where a layer was wrapped: the 2D name."""
    wrapped = {layer.name for layer in plan.layers if layer.role in ("mixing", "pool")}
    path: list[str] = []
    for part in name.removeprefix("network.").split("."):
        if part == "spatial" and ".".join(path) in wrapped:
            continue
        path.append(part)
    return ".".join(path)


def _layer_of(name: str, network: nn.Module, plan: InflationPlan) -> str:
    """The 2D layer of a tensor.

    The kernel after a convolution counts as part of it. The kernel after attention, an adapter and
    attention along time are separate layers.
    """
    for layer in plan.layers:
        if name.startswith(f"{layer.name}.time."):
            leaf = not any(network.get_submodule(layer.name).children())
            of_layer = leaf and plan.options.method not in ("adapter", "attention")
            return layer.name if of_layer else f"{layer.name}.time"
    return name.rpartition(".")[0]


def _learnt(video: VideoNetwork) -> set[str]:
    parameters = {id(parameter) for parameter in video.network.parameters()}
    names = video.network.state_dict(keep_vars=True)
    return {
        shown
        for (_, tensor), shown in zip(names.items(), video.state, strict=True)
        if id(tensor) in parameters
    }


def _prove(
    network: nn.Module, video: nn.Module, card: ModelCard, options: InflationOptions
) -> Proof:
    size = card.preprocessing.image_size
    images = still_images(PROOF_IMAGES, len(card.preprocessing.mean), size)
    return boring_video_test(network, video, options, images)


def _write(out: Path, network: nn.Module, card: ModelCard, report: InflationReport) -> None:
    """Report first: the checkpoint's two files make the folder complete."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False)
    atomic.write_text(out / "inflation.json", text + "\n")
    atomic.write_text(out / "inflation.md", report.markdown())
    save_checkpoint(out, network, card)
