"""Options of library networks (timm, torchvision, transformers) that files and commands may set.

`config.json` of a checkpoint and YAML files hold options that end up as keyword arguments of a
library's builder. Some of those arguments open files or download weights (`checkpoint_path`,
`pretrained_cfg`, `weights`). Only the names below pass, with plain values, whatever the version of
the library.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from pretrained_2d.errors import PretrainedError, did_you_mean

OUR_NAMES = frozenset({"num_classes", "ndim", "head_dropout", "image_size"})
# Added to the variance by layer norms: all of them, or the one before the head.
EPSILONS = frozenset({"norm_epsilon", "head_norm_epsilon"})
_TIMM = """
    act_layer alpha attn_drop_rate attn_head_dim_reduction attn_pool_num_heads avg_down base_width
    bottle_ratio cardinality channels class_token conv_bias conv_mlp crop_scale depth depth_mult
    depths dim dims distillation distilled down_kernel_size drop_block_rate drop_path drop_path_rate
    drop_rate dynamic_img_pad dynamic_img_size embed_dim embed_dims expand_ratio expansion_ratio
    fc_norm final_norm fix_init global_pool groups growth_rate head_dim head_hidden_size
    head_init_scale head_norm_first img_size in_chans init_values kernel_size kernel_sizes
    layer_scale_init_value layers legacy ls_init_value mlp_ratio mlp_ratios no_embed_class norm_eps
    norm_layer num_blocks num_features num_heads num_reg_tokens output_stride patch_drop_rate
    patch_size pool_include_prefix pool_size pos_drop_rate pos_embed pre_norm
    pretrained_window_sizes proj_bias proj_drop_rate qk_norm qkv_bias qkv_fused reduction reg_tokens
    rel_pos_type rope_temperature se_ratio sr_ratios stem_chs stem_size stem_type stem_width
    strict_img_size swiglu_mlp use_abs_pos_emb use_fc_norm use_grn use_pos_embed use_rel_pos_bias
    use_rot_pos_emb width width_mult widths window_ratio window_size window_sizes zero_init_last
"""
_TORCHVISION = """
    activation_dropout alpha attention_dropout aux_logits bn_size block_config depths drop_rate
    dropout embed_dim groups growth_rate head_dim hidden_dim init_weights last_channel layer_scale
    memory_efficient mlp_dim mlp_ratio num_heads num_init_features num_layers patch_size
    representation_size round_nearest stem_width stochastic_depth_prob temporal_window_size
    transform_input width_mult width_per_group window_size zero_init_residual
"""
_TRANSFORMERS = """
    attention_dropout attention_probs_dropout_prob attention_type crop_size drop_path_rate
    frames_per_clip hidden_act hidden_dropout_prob hidden_size image_size initializer_range
    intermediate_size layer_norm_eps mlp_ratio num_attention_heads num_channels num_frames
    num_hidden_layers num_pooler_layers in_chans patch_size pooled_head pred_hidden_size
    pred_mlp_ratio pred_num_attention_heads pred_num_hidden_layers pred_num_mask_tokens
    pred_zero_init_mask_tokens qkv_bias tubelet_size use_mean_pooling
"""
ALLOWED: Mapping[str, frozenset[str]] = {
    "timm": OUR_NAMES | EPSILONS | set(_TIMM.split()),
    "torchvision": OUR_NAMES | set(_TORCHVISION.split()),
    "transformers": frozenset({"num_classes", "ndim"}) | set(_TRANSFORMERS.split()),
}
WORD = re.compile(r"[A-Za-z0-9_+-]{0,40}")  # such as gelu and avg; no slashes, dots or colons


def check_library_options(architecture: str, options: Mapping[str, Any]) -> None:
    """Raise PretrainedError unless a `timm/` or `torchvision/` network may be built so.

    Options of our own networks are checked by their dataclasses.
    """
    library, _, name = architecture.partition("/")
    if library not in ALLOWED:
        return
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise PretrainedError(f"{architecture!r} is not a name of {library}, such as timm/resnet18")
    allowed = ALLOWED[library]
    for option, value in options.items():
        if option not in allowed:
            hint = did_you_mean(str(option), allowed, most=3, cutoff=0.6)
            raise PretrainedError(
                f"{architecture} does not take the option {option!r} from a file or a command{hint}"
                "; options of shape and regularisation are taken, such as num_classes, image_size, "
                "depth and drop_path, and none that opens a file or downloads"
            )
        if not _is_plain(value, depth=2):
            raise PretrainedError(
                f"{architecture}: option {option!r} is {value!r}; expected a number, true, false, "
                "a name of letters, digits, '_', '+' and '-', or a list of them"
            )


def _is_plain(value: object, depth: int) -> bool:
    if value is None or isinstance(value, bool | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return False
