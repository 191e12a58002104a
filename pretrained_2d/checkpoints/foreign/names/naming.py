"""Names of the weights of our networks in other programs, and the rules that translate them."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile

from torch import Tensor

Rules = tuple[tuple[str, str], ...]  # (pattern, replacement), all applied in turn


def _as_it_is(name: str, tensor: Tensor) -> Tensor:  # noqa: ARG001
    return tensor


@dataclass(frozen=True)
class Convention:
    """One program's names. `convert` changes layouts, given our name of the tensor."""

    name: str
    rules: Rules = ()
    convert: Callable[[str, Tensor], Tensor] = _as_it_is

    def rename(self, name: str) -> str:
        """Their name -> ours; a name without a rule stays as it is."""
        for pattern, replacement in self.rules:
            name = re.sub(pattern, replacement, name)
        return name


OURS = Convention("our names")
WRAPPED = Convention("the library's names", ((r"^", "network."),))

_BLOCK = r"^stages\.(\d)\.blocks\.(\d+)\."
CONVNEXT = (
    OURS,
    Convention(
        "timm's names",
        (
            (r"^stem\.0\.", "stem.conv."),
            (r"^stem\.1\.", "stem.norm."),
            (r"^stages\.(\d)\.downsample\.0\.", r"stages.\1.downsample.norm."),
            (r"^stages\.(\d)\.downsample\.1\.", r"stages.\1.downsample.conv."),
            (_BLOCK + r"conv_dw\.", r"stages.\1.blocks.\2.mixer."),
            (_BLOCK + r"gamma$", r"stages.\1.blocks.\2.scale"),
            (r"^head\.norm\.", "norm."),
            (r"^head\.fc\.", "head."),
        ),
    ),
    Convention(
        "the names of the original ConvNeXt",
        (
            (r"^downsample_layers\.0\.0\.", "stem.conv."),
            (r"^downsample_layers\.0\.1\.", "stem.norm."),
            (r"^downsample_layers\.(\d)\.0\.", r"stages.\1.downsample.norm."),
            (r"^downsample_layers\.(\d)\.1\.", r"stages.\1.downsample.conv."),
            (r"^stages\.(\d)\.(\d+)\.", r"stages.\1.blocks.\2."),
            (_BLOCK + r"dwconv\.", r"stages.\1.blocks.\2.mixer."),
            (_BLOCK + r"pwconv(\d)\.", r"stages.\1.blocks.\2.mlp.fc\3."),
            (_BLOCK + r"gamma$", r"stages.\1.blocks.\2.scale"),
        ),
    ),
    Convention(
        "torchvision's names",
        (
            (r"^features\.0\.0\.", "stem.conv."),
            (r"^features\.0\.1\.", "stem.norm."),
            *((rf"^features\.{2 * s}\.0\.", f"stages.{s}.downsample.norm.") for s in (1, 2, 3)),
            *((rf"^features\.{2 * s}\.1\.", f"stages.{s}.downsample.conv.") for s in (1, 2, 3)),
            *(
                (rf"^features\.{2 * s + 1}\.(\d+)\.", rf"stages.{s}.blocks.\1.")
                for s in (0, 1, 2, 3)
            ),
            (_BLOCK + r"layer_scale$", r"stages.\1.blocks.\2.scale"),
            (_BLOCK + r"block\.0\.", r"stages.\1.blocks.\2.mixer."),
            (_BLOCK + r"block\.2\.", r"stages.\1.blocks.\2.norm."),
            (_BLOCK + r"block\.3\.", r"stages.\1.blocks.\2.mlp.fc1."),
            (_BLOCK + r"block\.5\.", r"stages.\1.blocks.\2.mlp.fc2."),
            (r"^classifier\.0\.", "norm."),
            (r"^classifier\.2\.", "head."),
        ),
    ),
)

_LAYER = r"^blocks\.(\d+)\."
VIT = (
    OURS,
    Convention(
        "timm's names",
        (
            (r"^cls_token$", "class_token"),
            (r"^pos_embed$", "positions"),
            (r"^patch_embed\.proj\.", "patches."),
            (_LAYER + r"attn\.", r"blocks.\1.mixer."),
        ),
    ),
    Convention(
        "torchvision's names",
        (
            (r"^encoder\.pos_embedding$", "positions"),
            (r"^conv_proj\.", "patches."),
            (r"^encoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
            (_LAYER + r"ln_(\d)\.", r"blocks.\1.norm\2."),
            (_LAYER + r"self_attention\.in_proj_", r"blocks.\1.mixer.qkv."),
            (_LAYER + r"self_attention\.out_proj\.", r"blocks.\1.mixer.proj."),
            (_LAYER + r"mlp\.(0|linear_1)\.", r"blocks.\1.mlp.fc1."),
            (_LAYER + r"mlp\.(3|linear_2)\.", r"blocks.\1.mlp.fc2."),
            (r"^encoder\.ln\.", "norm."),
            (r"^heads\.head\.", "head."),
        ),
    ),
)


def _from_time_first(name: str, tensor: Tensor) -> Tensor:
    """(time, height, width, in, out) -> (out, in, time, height, width); statistics become flat."""
    if name == "head.weight":
        return tensor.reshape(tensor.shape[-2:]).T
    if name.endswith("conv.weight"):
        return tensor.movedim((4, 3), (0, 1)) if tensor.ndim == 5 else tensor  # 4: not such a file
    return tensor.flatten()


def _flat_head(name: str, tensor: Tensor) -> Tensor:
    return tensor.flatten(1) if name == "head.weight" else tensor


INCEPTION = (
    OURS,
    Convention(
        "DeepMind's names",
        (
            (r"^(params|batch_stats|RGB|Flow)/", ""),
            (r"^inception_i3d/", ""),
            (r"^Mixed_(\w\w)/Branch_([03])/Conv3d_0[ab]_1x1/", r"layers.mixed_\1.branch_\2."),
            (r"^Mixed_(\w\w)/Branch_([12])/Conv3d_0a_1x1/", r"layers.mixed_\1.branch_\2.0."),
            # In the published Mixed_5b one layer is named 0a where the others are named 0b.
            (r"^Mixed_(\w\w)/Branch_([12])/Conv3d_0[ab]_3x3/", r"layers.mixed_\1.branch_\2.1."),
            (r"^Conv3d_(\w\w)_\dx\d/", r"layers.conv_\1."),
            (r"^Logits/Conv3d_0c_1x1/(Conv_0|conv_3d)/", "head."),
            (r"(Conv_0|conv_3d)/(kernel|w)$", "conv.weight"),
            (r"^head\.(kernel|w)$", "head.weight"),
            (r"^head\.b$", "head.bias"),
            (r"(BatchNorm_0|batch_norm)/(bias|beta)$", "norm.bias"),
            (r"(BatchNorm_0|batch_norm)/(scale|gamma)$", "norm.weight"),
            (r"(BatchNorm_0|batch_norm)/(mean|moving_mean)$", "norm.running_mean"),
            (r"(BatchNorm_0|batch_norm)/(var|moving_variance)$", "norm.running_var"),
        ),
        _from_time_first,
    ),
    Convention(
        "the names of the PyTorch port",
        (
            (r"^Mixed_(\w\w)\.b([03])b?\.", r"layers.mixed_\1.branch_\2."),
            (r"^Mixed_(\w\w)\.b([12])a\.", r"layers.mixed_\1.branch_\2.0."),
            (r"^Mixed_(\w\w)\.b([12])b\.", r"layers.mixed_\1.branch_\2.1."),
            (r"^Conv3d_(\w\w)_\dx\d\.", r"layers.conv_\1."),
            (r"^logits\.conv3d\.", "head."),
            (r"^(layers\..*)\.conv3d\.", r"\1.conv."),
            (r"^(layers\..*)\.bn\.", r"\1.norm."),
        ),
        _flat_head,
    ),
)

CONVENTIONS: Mapping[str, tuple[Convention, ...]] = {
    "convnext_tiny": CONVNEXT,
    "convnext_micro": CONVNEXT,
    "vit_base": VIT,
    "isotropic": (OURS,),
    "inception": INCEPTION,
    "inception_i3d": INCEPTION,
}


def conventions_of(architecture: str) -> tuple[Convention, ...]:
    """The names under which weights of an architecture are found, ours first."""
    return CONVENTIONS.get(architecture, (OURS, WRAPPED))


# Wrappers of single layers by compilers and parallel training, and by DataParallel.
_WRAPPERS = re.compile(
    r"(?:(?<=\.)|^)(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module)\."
)
_DATA_PARALLEL = re.compile(r"(?<=\.)module\.")
_CHUNKS = re.compile(r"(?:(?<=\.)|^)blocks\.\d+\.(\d+)\.")  # DINOv2's: blocks.<chunk>.<block>.


def shared_prefix(names: Collection[str]) -> str:
    """The dotted prefix that all names have in common, such as `module.`."""
    first, last = min(names).split(".")[:-1], max(names).split(".")[:-1]
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(f"{part}." for part, _ in pairs)


def without_inner_wrappers(names: Collection[str], wanted: Collection[str]) -> dict[str, str]:
    """Names without wrappers of single layers -> names; the prefix that all share is kept.

    `layer1._orig_mod.0.weight` becomes `layer1.0.weight`. Rules that the names of the network
    itself match do not apply, nor does anything if two names would become one.
    """
    start = len(shared_prefix(names))
    rules = [(_WRAPPERS, ""), (_DATA_PARALLEL, ""), (_CHUNKS, r"blocks.\1.")]
    usable = [rule for rule in rules if not any(rule[0].search(name) for name in wanted)]
    tidy = {}
    for name in names:
        inner = name[start:]
        for pattern, replacement in usable:
            inner = pattern.sub(replacement, inner)
        tidy[name[:start] + inner] = name
    return tidy if len(tidy) == len(names) else {name: name for name in names}
