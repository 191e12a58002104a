"""Networks of Hugging Face transformers as networks of timm: `config.json` -> name and options."""

from collections.abc import Callable, Mapping
from typing import Any

from pretrained_2d.errors import CheckpointError

Config = Mapping[str, Any]
Network = tuple[str, dict[str, Any]]  # timm's name, and options
_ACTIVATIONS = {
    "gelu": None,
    "quick_gelu": "quick_gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def timm_network(config: Config) -> Network:
    """`timm/<name>` and the options that make it the network of `config`.

    Raises CheckpointError that names what in the configuration has no counterpart.
    """
    kind = config["model_type"]
    if kind not in NETWORKS:
        raise CheckpointError(
            f"config.json describes a {kind!r} of transformers, which is not read; there are "
            f"{', '.join(NETWORKS)}. For other networks save the state_dict and name --architecture"
        )
    try:
        name, options = NETWORKS[kind](config)
    except KeyError as error:
        raise CheckpointError(
            f"config.json of a {kind!r} lacks {error}; save it again with transformers"
        ) from error
    if config.get("num_channels", 3) != 3:
        options["in_chans"] = config["num_channels"]
    return f"timm/{name}", {key: value for key, value in options.items() if value is not None}


def _refuse(config: Config, expected: Mapping[str, Any]) -> None:
    """Raise CheckpointError where a value is given that the timm network cannot have."""
    for name, value in expected.items():
        if config.get(name, value) != value:
            raise CheckpointError(
                f"config.json: {name} is {config[name]!r}; networks of timm have {value!r} there"
            )


def _activation(config: Config) -> str | None:
    name = config.get("hidden_act", "gelu")
    if name not in _ACTIVATIONS:
        raise CheckpointError(
            f"config.json: hidden_act is {name!r}; expected one of {', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[name]


def _transformer(config: Config, epsilon: float) -> dict[str, Any]:
    """Options that all transformers share; missing values are the defaults of the base size."""
    width = config.get("hidden_size", 768)
    inner = config.get("intermediate_size")
    return {
        "image_size": config.get("image_size", 224),
        "patch_size": config.get("patch_size", 16),
        "embed_dim": width,
        "depth": config.get("num_hidden_layers", 12),
        "num_heads": config.get("num_attention_heads", 12),
        "mlp_ratio": config.get("mlp_ratio", 4) if inner is None else inner / width,
        "act_layer": _activation(config),
        "norm_epsilon": config.get("layer_norm_eps", epsilon),
    }


def _vit(config: Config) -> Network:
    _refuse(config, {"qkv_bias": True})
    return "vit_base_patch16_224", _transformer(config, 1e-12)


def _dinov2(config: Config) -> Network:
    _refuse(config, {"qkv_bias": True, "use_swiglu_ffn": False})
    registers = config.get("num_register_tokens", 0)
    own: dict[str, Any] = {"init_values": 1.0}
    if registers:
        own |= {"reg_tokens": registers, "no_embed_class": True}
    return "vit_base_patch14_dinov2", _transformer(config, 1e-6) | own


def _dinov3(config: Config) -> Network:
    _refuse(config, {"use_gated_mlp": False, "key_bias": False, "query_bias": True})
    options = _transformer(config, 1e-5)
    own = {
        "num_reg_tokens": config.get("num_register_tokens", 0),
        "rope_temperature": config.get("rope_theta", 100.0),
        "global_pool": "token",
        "init_values": 1.0,
    }
    return "vit_small_patch16_dinov3_qkvb", options | own


def _clip(config: Config) -> Network:
    options = _transformer({"hidden_act": "quick_gelu", "patch_size": 32, **config}, 1e-5)
    return "vit_base_patch16_clip_224", options


def _siglip(config: Config) -> Network:
    return "vit_base_patch16_siglip_224", _transformer(
        {"hidden_act": "gelu_pytorch_tanh", **config}, 1e-6
    )


def _beit(config: Config) -> Network:
    _refuse(config, {"use_shared_relative_position_bias": False, "use_mean_pooling": True})
    own = {
        "use_abs_pos_emb": config.get("use_absolute_position_embeddings", False),
        "use_rel_pos_bias": config.get("use_relative_position_bias", False),
        "init_values": config.get("layer_scale_init_value", 0.1),
    }
    return "beit_base_patch16_224", _transformer(config, 1e-12) | own


def _swin(config: Config) -> Network:
    _refuse(config, {"use_absolute_embeddings": False, "qkv_bias": True})
    return "swin_tiny_patch4_window7_224", {
        "image_size": config.get("image_size", 224),
        "patch_size": config.get("patch_size", 4),
        "embed_dim": config.get("embed_dim", 96),
        "depths": list(config.get("depths", [2, 2, 6, 2])),
        "num_heads": list(config.get("num_heads", [3, 6, 12, 24])),
        "window_size": config.get("window_size", 7),
        "mlp_ratio": config.get("mlp_ratio", 4.0),
        "act_layer": _activation(config),
        "norm_epsilon": config.get("layer_norm_eps", 1e-5),
    }


def _swinv2(config: Config) -> Network:
    _, options = _swin(config)
    windows = list(config.get("pretrained_window_sizes", ()))
    windows = (windows + [0] * len(options["depths"]))[: len(options["depths"])]
    return "swinv2_tiny_window8_256", {**options, "pretrained_window_sizes": windows}


def _dinov3_convnext(config: Config) -> Network:
    _, options = _convnext(config)
    epsilon = config.get("layer_norm_eps", 1e-6)
    return "convnext_tiny", {**options, "norm_epsilon": epsilon, "head_norm_epsilon": epsilon}


def _convnext(config: Config) -> Network:
    if config.get("num_stages", 4) != 4:
        raise CheckpointError(f"config.json: num_stages is {config['num_stages']}; expected 4")
    _activation(config)
    second = config["model_type"] == "convnextv2"
    return "convnextv2_tiny" if second else "convnext_tiny", {
        "depths": list(config.get("depths") or [3, 3, 9, 3]),
        "dims": list(config.get("hidden_sizes") or [96, 192, 384, 768]),
        "patch_size": config.get("patch_size", 4),
        # Norms inside of blocks have 1e-6 in both programs.
        "head_norm_epsilon": config.get("layer_norm_eps", 1e-12),
    }


def _resnet(config: Config) -> Network:
    _refuse(
        config,
        {
            "embedding_size": 64,
            "downsample_in_first_stage": False,
            "downsample_in_bottleneck": False,
            "hidden_act": "relu",
        },
    )
    bottleneck = config.get("layer_type", "bottleneck") == "bottleneck"
    widths = config.get("hidden_sizes", [256, 512, 1024, 2048])
    return "resnet50" if bottleneck else "resnet18", {
        "layers": list(config.get("depths", [3, 4, 6, 3])),
        "channels": [width // 4 for width in widths] if bottleneck else list(widths),
    }


NETWORKS: Mapping[str, Callable[[Config], Network]] = {
    "vit": _vit,
    "dinov2": _dinov2,
    "dinov2_with_registers": _dinov2,
    "dinov3_vit": _dinov3,
    "dinov3_convnext": _dinov3_convnext,
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "beit": _beit,
    "swin": _swin,
    "swinv2": _swinv2,
    "convnext": _convnext,
    "convnextv2": _convnext,
    "resnet": _resnet,
}
