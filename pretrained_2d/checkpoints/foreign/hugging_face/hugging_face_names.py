"""From the names of Hugging Face transformers, of version 4 and 5, to those of timm."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

Rules = tuple[tuple[str, str], ...]  # (pattern, replacement), all applied in turn

_PREFIXES = r"^(vit|dinov2|dinov2_with_registers|dinov3_vit|beit|swin|swinv2|vision_model|model)\."
_TRANSFORMER: Rules = (
    (_PREFIXES, ""),
    (_PREFIXES, ""),
    (r"^embeddings\.(cls_token|class_embedding)$", "cls_token"),
    (r"^embeddings\.position_embeddings?(\.weight)?$", "pos_embed"),
    (r"^embeddings\.register_tokens$", "reg_token"),
    (r"^embeddings\.patch_embeddings?\.(projection\.)?", "patch_embed.proj."),
    (r"^(encoder\.)?layers?\.(\d+)\.(?!blocks|downsample)", r"blocks.\2."),
    (r"\.attention\.(attention|self)\.", ".attention."),
    (r"\.(attention|self_attn)\.(query|q_proj)\.", ".attn.q."),
    (r"\.(attention|self_attn)\.(key|k_proj)\.", ".attn.k."),
    (r"\.(attention|self_attn)\.(value|v_proj)\.", ".attn.v."),
    (r"\.(attention\.output\.dense|attention\.o_proj|self_attn\.out_proj)\.", ".attn.proj."),
    (
        r"\.(attention\.)?(relative_position_bias\.)?relative_position_bias_table$",
        ".attn.relative_position_bias_table",
    ),
    (r"\.(layernorm_before|layer_norm1)\.", ".norm1."),
    (r"\.(layernorm_after|layer_norm2)\.", ".norm2."),
    (r"\.(intermediate\.dense|mlp\.up_proj)\.", ".mlp.fc1."),
    (r"\.(output\.dense|mlp\.down_proj)\.", ".mlp.fc2."),
    (r"^pre_layrnorm\.", "norm_pre."),
    (r"^(layernorm|post_layernorm)\.", "norm."),
    (r"^head\.probe$", "attn_pool.latent"),
    (r"^head\.attention\.in_proj_", "attn_pool.qkv."),
    (r"^head\.attention\.out_proj\.", "attn_pool.proj."),
    (r"^head\.layernorm\.", "attn_pool.norm."),
    (r"^head\.mlp\.", "attn_pool.mlp."),
    (r"^classifier\.", "head."),
)
_LAYER_SCALE = (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma")
_GAMMA = (r"\.(layer_scale|lambda_)(\d)(\.lambda1)?$", r".gamma_\2")
_VIT: Rules = (*_TRANSFORMER, _LAYER_SCALE)
_BEIT: Rules = (*_TRANSFORMER, _GAMMA, (r"^pooler\.layernorm\.", "fc_norm."))
_SWIN: Rules = (
    *_TRANSFORMER,
    (r"^encoder\.layers\.", "layers."),
    (r"^embeddings\.norm\.", "patch_embed.norm."),
    # timm reduces the resolution at the beginning of a stage, transformers at the end of the last.
    *((rf"^layers\.{i}\.downsample\.", f"layers.{i + 1}.downsample.") for i in (2, 1, 0)),
    (r"^head\.", "head.fc."),
)
_SWINV2: Rules = (
    *_SWIN,
    (r"\.attention\.(logit_scale)$", r".attn.\1"),
    (r"\.attention\.continuous_position_bias_mlp\.", ".attn.cpb_mlp."),
)
_CONVNEXT: Rules = (
    (r"^convnext(v2)?\.", ""),
    (r"^embeddings\.patch_embeddings\.", "stem.0."),
    (r"^embeddings\.layernorm\.", "stem.1."),
    (r"^encoder\.", ""),
    (r"\.downsampling_layer\.", ".downsample."),
    (r"\.layers\.(\d+)\.", r".blocks.\1."),
    (r"\.dwconv\.", ".conv_dw."),
    (r"\.layernorm\.", ".norm."),
    (r"\.pwconv(\d)\.", r".mlp.fc\1."),
    (r"\.grn\.", ".mlp.grn."),
    (r"\.layer_scale_parameter$", ".gamma"),
    (r"^layernorm\.", "head.norm."),
    (r"^classifier\.", "head.fc."),
)
_DINOV3_CONVNEXT: Rules = (
    (r"^model\.", ""),
    (r"^stages\.0\.downsample_layers\.", "stem."),
    (r"\.downsample_layers\.", ".downsample."),
    (r"\.layers\.(\d+)\.", r".blocks.\1."),
    (r"\.depthwise_conv\.", ".conv_dw."),
    (r"\.layer_norm\.", ".norm."),
    (r"\.pointwise_conv(\d)\.", r".mlp.fc\1."),
    (r"^layer_norm\.", "head.norm."),
)
_RESNET: Rules = (
    (r"^resnet\.", ""),
    (r"^embedder\.embedder\.convolution\.", "conv1."),
    (r"^embedder\.embedder\.normalization\.", "bn1."),
    *((rf"^encoder\.stages\.{i}\.layers\.", f"layer{i + 1}.") for i in range(4)),
    (r"\.shortcut\.convolution\.", ".downsample.0."),
    (r"\.shortcut\.normalization\.", ".downsample.1."),
    *((rf"\.layer\.{i}\.convolution\.", f".conv{i + 1}.") for i in range(3)),
    *((rf"\.layer\.{i}\.normalization\.", f".bn{i + 1}.") for i in range(3)),
    (r"^classifier\.1\.", "fc."),
)
RULES: Mapping[str, Rules] = {
    "vit": _VIT,
    "dinov2": _VIT,
    "dinov2_with_registers": _VIT,
    "dinov3_vit": _BEIT,
    "dinov3_convnext": _DINOV3_CONVNEXT,
    "clip_vision_model": _VIT,
    "siglip_vision_model": _VIT,
    "beit": _BEIT,
    "swin": _SWIN,
    "swinv2": _SWINV2,
    "convnext": _CONVNEXT,
    "convnextv2": _CONVNEXT,
    "resnet": _RESNET,
}
_TOWERS = {"clip_vision_model", "siglip_vision_model"}  # of pairs with a text tower
_OF_TEXT = ("text_model.", "text_projection.", "logit_scale", "logit_bias")


def timm_tensors(model_type: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a transformers model of this type under timm's names, queries, keys and
    values joined. The text tower of a pair is left out."""
    renamed = {}
    for name, tensor in tensors.items():
        if model_type in _TOWERS and name.startswith(_OF_TEXT):
            continue
        for pattern, replacement in RULES[model_type]:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    if model_type in ("convnext", "convnextv2", "dinov3_convnext", "resnet"):
        return renamed
    separate_bias = model_type in ("beit", "dinov3_vit", "swinv2")
    tensors = _with_tokens(_split_pool(_joined(renamed, separate_bias=separate_bias)))
    if model_type == "dinov2_with_registers":
        # timm's position table is of patches only; the class token has its position inside.
        positions = tensors["pos_embed"]
        tensors["cls_token"] = tensors["cls_token"] + positions[:, :1]
        tensors["pos_embed"] = positions[:, 1:]
    return tensors


def _joined(tensors: Mapping[str, Tensor], *, separate_bias: bool) -> dict[str, Tensor]:
    """`attn.q`, `attn.k`, `attn.v` -> `attn.qkv`; biases stay apart where keys have none."""
    joined = dict(tensors)
    for name in tensors:
        if not name.endswith(".attn.q.weight"):
            continue
        layer = name.removesuffix("q.weight")
        parts = [joined.pop(f"{layer}{part}.weight") for part in "qkv"]
        joined[f"{layer}qkv.weight"] = torch.cat(parts)
        biases = {part: joined.pop(f"{layer}{part}.bias", None) for part in "qkv"}
        present = {part: bias for part, bias in biases.items() if bias is not None}
        if separate_bias:
            joined |= {f"{layer}{part}_bias": bias for part, bias in present.items()}
        elif len(present) == 3:
            joined[f"{layer}qkv.bias"] = torch.cat(list(present.values()))
    return joined


def _split_pool(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The joined projection of an attention pool -> queries, and keys with values."""
    for kind in ("weight", "bias"):
        joined = tensors.pop(f"attn_pool.qkv.{kind}", None)
        if joined is not None:
            third = len(joined) // 3
            tensors[f"attn_pool.q.{kind}"] = joined[:third]
            tensors[f"attn_pool.kv.{kind}"] = joined[third:]
    return tensors


def _with_tokens(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Class tokens and position tables as (1, tokens, channels)."""
    for name in ("cls_token", "pos_embed"):
        if name in tensors:
            tensors[name] = tensors[name].reshape(1, -1, tensors[name].shape[-1])
    return tensors
