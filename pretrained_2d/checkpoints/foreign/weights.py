"""Load the weights of a foreign checkpoint into a network and report what became of each tensor."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.fitting import load_tensors, mismatches, side_by_side
from pretrained_2d.checkpoints.foreign.heads import (
    HeadChoice,
    heads_of,
    is_of_head,
    num_classes_for,
    without_foreign_head,
)
from pretrained_2d.checkpoints.foreign.input_shape import (
    channels_of,
    with_channels,
    with_positions,
)
from pretrained_2d.checkpoints.foreign.names.matching import (
    COUNTER,
    Match,
    match_by_name,
    match_by_structure,
)
from pretrained_2d.checkpoints.foreign.names.naming import conventions_of, without_inner_wrappers
from pretrained_2d.checkpoints.foreign.names.timm_names import match_by_timm
from pretrained_2d.checkpoints.foreign.tensor_files.files import TensorFile
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import build


@dataclass(frozen=True, kw_only=True)
class ForeignReport:
    """What happened to every tensor of a foreign checkpoint."""

    file: str
    entry: str  # where in the file the weights were; "" for a bare state dict
    other_entries: tuple[str, ...]
    convention: str  # which names were found, or that tensors were matched by shape
    matched: int
    prefixes: tuple[str, ...] = ()  # taken off all names
    renamed: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs, where they differ
    left_out: tuple[str, ...] = ()  # in the file, not used by the network
    new: tuple[str, ...] = ()  # in the network, not in the file: newly initialised
    notes: tuple[str, ...] = ()  # casts and reshapes

    def lines(self) -> list[str]:
        """The report as lines of text, the most important first."""
        where = f" ({self.entry})" if self.entry else ""
        lines = [f"{self.matched} tensors of {self.file}{where} matched by {self.convention}"]
        if self.other_entries:
            lines.append(f"also in the file, not used: {', '.join(self.other_entries)} (--entry)")
        if self.prefixes:
            lines.append(f"prefixes taken off: {', '.join(self.prefixes)}")
        if self.renamed:
            ours, theirs = next(iter(self.renamed.items()))
            lines.append(f"{len(self.renamed)} renamed, such as {theirs} -> {ours}")
        for title, names in (("left out", self.left_out), ("newly initialised", self.new)):
            if names:
                more = f" and {len(names) - 8} more" if len(names) > 8 else ""
                lines.append(f"{len(names)} {title}: {', '.join(names[:8])}{more}")
        return [*lines, *self.notes]


def load_foreign(
    file: TensorFile,
    architecture: str,
    options: Mapping[str, Any],
    head: HeadChoice | None = None,
) -> tuple[nn.Module, dict[str, Any], ForeignReport]:
    """A network with the file's weights, the options that rebuild it, and the report.

    head: `new` leaves the file's head out, `drop` makes an encoder, `strict` demands that the
    file's head fits. By default the file's head is taken if it fits, with its number of classes,
    and else replaced by a new one. Raises CheckpointError that sets names and shapes side by side
    when the body of the network does not fit.
    """
    options = dict(options)
    if head is None and options.get("num_classes") == 0:
        head = "drop"
    if head == "drop":
        options["num_classes"] = 0
    network = build(architecture, **options)
    tensors, notes = _usable(file)
    tidy = without_inner_wrappers(tensors, network.state_dict())
    tensors = {name: tensors[original] for name, original in tidy.items()}
    heads = heads_of(network, architecture, options)
    match = _best_match(tensors, network, architecture, heads)
    changes = _differences_of_options(match, architecture, options)
    channels = channels_of(match, network)
    if channels is not None and "in_chans" not in options:
        changes["in_chans"] = channels
    classes = num_classes_for(match, network, heads, options, head)
    if classes is not None:
        changes["num_classes"] = classes
    if changes:
        options |= changes
        network = build(architecture, **options)
        match = _best_match(tensors, network, architecture, heads)
    match = without_foreign_head(match, network, heads, head)
    match, adapted = with_channels(match, network)
    match, resampled = with_positions(match, network)
    options.setdefault("num_classes", _num_classes(network, heads))
    match = replace(match, names={ours: tidy.get(n, n) for ours, n in match.names.items()})
    fitted, reshaped = _reshaped(match.tensors, network.state_dict())
    left_out, new = _leftovers(file, network, architecture, fitted, match, heads, head)
    _check_finite(file, fitted, match)
    load_tensors(network, fitted, strict=False)
    if any(name.startswith(heads) for name in new):
        notes.append(
            f"the head is new, for {options['num_classes']} classes; labels or the option "
            "num_classes change that, --head drop leaves it out"
        )
    report = ForeignReport(
        file=file.path.name,
        entry=file.entry,
        other_entries=(*file.other_entries, *match.rivals),
        prefixes=match.prefixes,
        convention=match.convention,
        matched=len(fitted),
        renamed={ours: match.names[ours] for ours in fitted if ours != match.names[ours]},
        left_out=tuple(match.names[name] for name in left_out),
        new=new,
        notes=(*notes, *match.notes, *adapted, *resampled, *reshaped),
    )
    return network.eval(), options, report


def _usable(file: TensorFile) -> tuple[dict[str, Tensor], list[str]]:
    """Dense tensors; reduced precision becomes float32, which holds it exactly."""
    tensors, cast = {}, set()
    for name, tensor in file.tensors.items():
        if tensor.is_quantized or tensor.layout != torch.strided or tensor.is_complex():
            raise CheckpointError(
                f"{file.path}: {name} is quantised, sparse or complex; save the dense float weights"
            )
        if name.endswith("_flat_param") or hasattr(tensor, "placements"):  # FSDP 1, DTensor of 2
            raise CheckpointError(
                f"{file.path}: {name} is a part of the parameters that FSDP shards; save the state "
                "dict with StateDictType.FULL_STATE_DICT, or FSDP 2's with full_state_dict=True"
            )
        if tensor.numel() == 0:
            raise CheckpointError(
                f"{file.path}: {name} is empty, as in a part of DeepSpeed's ZeRO-3 checkpoints; "
                "join the parts with DeepSpeed's zero_to_fp32.py first"
            )
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            cast.add(str(tensor.dtype).removeprefix("torch."))
            tensor = tensor.float()
        tensors[name] = tensor
    return tensors, [f"converted from {kind} to float32" for kind in sorted(cast)]


def _check_finite(file: TensorFile, fitted: Mapping[str, Tensor], match: Match) -> None:
    """Raise CheckpointError for weights that are not finite; tensors left out may be anything."""
    for name, tensor in fitted.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"{file.path}: {match.names[name]} has values that are not finite; the training "
                "that wrote it had diverged, take an earlier checkpoint"
            )


def _num_classes(network: nn.Module, heads: tuple[str, ...]) -> int:
    weight = network.state_dict().get(f"{heads[0]}.weight") if heads else None
    return 0 if weight is None else len(weight)


def _best_match(
    tensors: Mapping[str, Tensor], network: nn.Module, architecture: str, heads: tuple[str, ...]
) -> Match:
    """By names; else by the library's own conversion; else by structure."""
    wanted = network.state_dict()
    match = match_by_name(tensors, wanted, conventions_of(architecture))
    if all(
        name.rpartition(".")[0] in heads
        or (name in match.tensors and match.tensors[name].numel() == parameter.numel())
        for name, parameter in network.named_parameters()
    ):
        return match
    converted = match_by_timm(tensors, network) if architecture.startswith("timm/") else None
    if converted is not None and len(converted.tensors) >= len(match.tensors):
        return converted
    if len(match.tensors) < len(wanted) / 2:
        return match_by_structure(tensors, wanted, heads) or match
    return match


def _differences_of_options(
    match: Match, architecture: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Options that the file asks for: size of images, scale of norms, the norm after pooling."""
    changes: dict[str, Any] = {}
    positions = match.tensors.get("positions")
    if architecture == "vit_base" and positions is not None and "image_size" not in given:
        side = round((positions.shape[1] - 1) ** 0.5) * 16
        if side != 224 and (side // 16) ** 2 + 1 == positions.shape[1]:
            changes["image_size"] = side
    scales = [t for n, t in match.unknown.items() if n.endswith(".norm.weight")]
    if architecture.startswith("inception") and any((t != 1).any() for t in scales):
        changes["norm_scale"] = True
    pooled_norm = {"network.fc_norm.weight", "network.norm.weight"} & match.unknown.keys()
    if pooled_norm == {"network.fc_norm.weight"} and "global_pool" not in given:
        changes["global_pool"] = "avg"  # timm's ViTs have this norm only after mean pooling
    return {name: value for name, value in changes.items() if given.get(name) != value}


def _reshaped(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[str]]:
    """1×1 convolutions and linear layers hold the same numbers; so do (C, 1, 1) and (C,)."""
    fitted, notes = {}, []
    for name, tensor in tensors.items():
        shape = wanted[name].shape
        squeezed = [size for size in tensor.shape if size != 1]
        if tensor.shape != shape and squeezed == [size for size in shape if size != 1]:
            notes.append(f"{name}: {tuple(tensor.shape)} taken as {tuple(shape)}")
            tensor = tensor.reshape(shape)
        fitted[name] = tensor
    return fitted, notes if len(notes) <= 4 else [*notes[:3], f"… {len(notes) - 3} more reshaped"]


def _leftovers(
    file: TensorFile,
    network: nn.Module,
    architecture: str,
    fitted: Mapping[str, Tensor],
    match: Match,
    heads: tuple[str, ...],
    head: HeadChoice | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tensors that may be left over in the file and in the network; others are an error."""
    wanted = network.state_dict()
    replaceable = () if head == "strict" else heads
    new = [
        name for name in wanted if name not in fitted and _may_be_new(name, network, replaceable)
    ]
    parts = {_part(name) for name in wanted}
    left_out = [
        name
        for name in match.unknown
        if is_of_head(name, replaceable) or _may_be_left_out(name, parts, match.unknown)
    ]
    have = {**fitted, **{n: t for n, t in match.unknown.items() if n not in left_out}}
    if mismatches(have, {name: wanted[name] for name in wanted if name not in new}):
        everything = {**fitted, **match.unknown}
        problems = mismatches(_without_counters(everything), _without_counters(wanted), match.names)
        raise CheckpointError(
            f"{file.path} does not fit {architecture} (best of all known names: "
            f"{match.convention}, {len(fitted)} of {len(wanted)} tensors):\n"
            + side_by_side(problems)
            + _hint(architecture, match, head, wanted)
        )
    return tuple(left_out), tuple(name for name in new if not name.endswith(COUNTER))


def _hint(
    architecture: str, match: Match, head: HeadChoice | None, wanted: Mapping[str, Tensor]
) -> str:
    """A sentence that names the option that may help."""
    differ = [name for name, t in match.tensors.items() if t.shape != wanted[name].shape]
    if any("pos" in name or name.endswith("attention_biases") for name in differ):
        return "\npositions of this network cannot be resampled: give --image-size of the file"
    if any(name.endswith("attn.qkv.bias") for name in match.unknown):
        return f"\nbiases of attention: try --architecture {architecture}_qkvb, if timm has it"
    if head == "strict":
        return "\nwithout --head strict a head that does not fit is replaced by a new one"
    names = f" '{architecture.partition('/')[0]}/*'" if "/" in architecture else ""
    return f"\nif another network wrote the file, give its --architecture (videopipe models{names})"


def _without_counters(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(COUNTER)}


def _may_be_new(name: str, network: nn.Module, heads: tuple[str, ...]) -> bool:
    """The head (to be fine-tuned), unused parts, and what is computed when the network is built."""
    if name.startswith(tuple(f"{head}." for head in heads)):
        return True
    learned = {own for own, parameter in network.named_parameters() if parameter.requires_grad}
    return name not in learned and not name.endswith(("running_mean", "running_var"))


def _may_be_left_out(name: str, parts: set[str], unknown: Mapping[str, Tensor]) -> bool:
    """Parts the network does not have at all (second heads, losses), counters, scales of one."""
    if name.endswith(COUNTER):
        return True
    if name.startswith("layers.") and name.endswith(".norm.weight"):
        return bool((unknown[name] == 1).all())  # Inception's batch norm without a scale
    return _part(name) not in parts


def _part(name: str) -> str:
    """The outermost part of a network that a name belongs to."""
    return name.removeprefix("network.").partition(".")[0]
