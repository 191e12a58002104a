"""Encoders under the names that their authors publish, with the features of timm's network."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d import CheckpointError, build
from pretrained_2d.checkpoints.foreign import TensorFile, load_foreign

PIXELS = 32
SMALL: dict[str, Any] = {"depth": 2, "image_size": PIXELS}
TEXT = {
    "token_embedding.weight": torch.zeros(9, 8),
    "text.transformer.resblocks.0.ln_1.weight": torch.zeros(8),
    "logit_scale": torch.tensor(4.6),
}


def encoder(architecture: str, num_classes: int = 0, **options: Any) -> nn.Module:
    """A small network without layers that are zero."""
    options = {**SMALL, **options}
    network = build(architecture, num_classes=num_classes, **options).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return network


def renamed(network: nn.Module, rules: Mapping[str, str]) -> dict[str, Tensor]:
    state = {}
    for name, tensor in network.network.state_dict().items():
        for pattern, replacement in rules.items():
            name = re.sub(pattern, replacement, name)
        state[name] = tensor
    return state


def loaded(state: dict[str, Tensor], architecture: str, **options: Any) -> tuple[nn.Module, Any]:
    file = TensorFile(Path("weights.pth"), state)
    network, _, report = load_foreign(file, architecture, {**SMALL, **options})
    return network, report


def assert_same_features(ours: nn.Module, theirs: nn.Module) -> None:
    images = torch.randn(2, 3, PIXELS, PIXELS, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(images), theirs.embed(images), rtol=1e-5, atol=1e-5)


CLIP = "timm/vit_base_patch16_clip_224"
CLIP_NAMES = {
    r"^patch_embed\.proj": "conv1",
    r"^norm_pre": "ln_pre",
    r"^norm\.": "ln_post.",
    r"^blocks": "transformer.resblocks",
    r"norm(\d)": r"ln_\1",
    r"attn\.qkv\.": "attn.in_proj_",
    r"attn\.proj": "attn.out_proj",
    r"mlp\.fc1": "mlp.c_fc",
    r"mlp\.fc2": "mlp.c_proj",
    r"^cls_token": "class_embedding",
    r"^pos_embed": "positional_embedding",
}
NARROW = {"embed_dim": 24, "num_heads": 2}


def clip_tower(network: nn.Module) -> dict[str, Tensor]:
    state = renamed(network, CLIP_NAMES)
    state["proj"] = state.pop("head.weight").T
    del state["head.bias"]
    state["class_embedding"] = state["class_embedding"].flatten()
    state["positional_embedding"] = state["positional_embedding"][0]
    return state


@pytest.mark.parametrize("prefix", ["visual.", "", "module.visual.", "clip.visual."])
def test_the_image_tower_of_clip(prefix: str) -> None:
    theirs = encoder(CLIP, 5, **NARROW)
    nn.init.zeros_(theirs.head.bias)  # CLIP's projection has none
    state = {f"{prefix}{name}": tensor for name, tensor in clip_tower(theirs).items()}
    outer = prefix.removesuffix("visual.")
    text = {f"{outer}{name}": tensor for name, tensor in TEXT.items()} if prefix else {}
    ours, report = loaded(text | state, CLIP, **NARROW)
    assert_same_features(ours, theirs)
    assert torch.equal(ours.head.weight, theirs.head.weight)  # the projection
    assert set(report.left_out) == set(text)
    assert report.renamed["network.cls_token"] == f"{prefix}class_embedding"
    features, report = loaded(text | state, CLIP, **NARROW, num_classes=0)
    assert features.heads == ()
    assert f"{prefix}proj" in report.left_out
    assert_same_features(features, theirs)


def test_the_tower_of_clip_at_another_image_size() -> None:
    from timm.layers import resample_abs_pos_embed

    theirs = encoder(CLIP, 5, **NARROW)
    state = {f"visual.{name}": tensor for name, tensor in clip_tower(theirs).items()}
    ours, report = loaded(TEXT | state, CLIP, **{**NARROW, "image_size": 48})
    expected = resample_abs_pos_embed(theirs.network.pos_embed, [3, 3], num_prefix_tokens=1)
    torch.testing.assert_close(ours.network.pos_embed, expected)
    assert "pos_embed: made (1, 10, 24) by timm" in report.notes


def test_open_clip_s_tower_of_timm_with_attention_pooling() -> None:
    siglip = "timm/vit_base_patch16_siglip_224"
    theirs = encoder(siglip, **NARROW)
    state = {f"visual.trunk.{name}": t for name, t in theirs.network.state_dict().items()}
    ours, report = loaded(TEXT | state, siglip, **NARROW)
    assert (set(report.left_out), report.new) == (set(TEXT), ())
    assert_same_features(ours, theirs)
    smaller, report = loaded(TEXT | state, siglip, **{**NARROW, "image_size": 16})
    assert set(report.left_out) == set(TEXT)
    assert smaller.embed(torch.zeros(1, 3, 16, 16)).shape == (1, 24)


def test_dinov2_of_a_training_with_chunks_registers_and_heads() -> None:
    architecture = "timm/vit_small_patch14_reg4_dinov2"
    options = {**NARROW, "image_size": 28}
    theirs = encoder(architecture, **options)
    state = renamed(theirs, {r"^blocks\.": "blocks.0.", "^reg_token": "register_tokens"})
    position = torch.randn(1, 1, 24)  # of the class token; timm's network has it inside the token
    state["cls_token"] = state["cls_token"] - position
    state["pos_embed"] = torch.cat([position, state["pos_embed"]], 1)
    state["mask_token"] = torch.zeros(1, 24)
    teacher = {f"backbone.{name}": tensor for name, tensor in state.items()}
    heads = {"dino_head.mlp.0.weight": torch.zeros(8, 24), "ibot_head.last.weight_g": torch.ones(1)}
    ours, report = loaded(teacher | heads, architecture, **options)
    assert (set(report.left_out), report.new) == ({*heads, "backbone.mask_token"}, ())
    images = torch.randn(2, 3, 28, 28)
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(images), theirs.embed(images), rtol=1e-4, atol=1e-5)


MAE = "timm/vit_base_patch16_224"


def test_a_pretrained_mae_loses_its_decoder() -> None:
    theirs = encoder(MAE, **NARROW)
    decoder = {
        "mask_token": torch.zeros(1, 1, 8),
        "decoder_pos_embed": torch.zeros(1, 5, 8),
        "decoder_blocks.0.norm1.weight": torch.ones(8),
        "decoder_pred.weight": torch.zeros(768, 8),
    }
    ours, report = loaded({**theirs.network.state_dict(), **decoder}, MAE, **NARROW, num_classes=0)
    assert set(report.left_out) == set(decoder)
    assert_same_features(ours, theirs)


def test_a_fine_tuned_mae_says_how_it_pools() -> None:
    theirs = encoder(MAE, 7, **NARROW, global_pool="avg")
    ours, report = loaded(dict(theirs.network.state_dict()), MAE, **NARROW)
    assert (report.left_out, report.new) == ((), ())
    assert ours.network.global_pool == "avg"
    assert_same_features(ours, theirs)


@pytest.mark.parametrize("tower", [False, True])
def test_eva02_of_masked_image_modelling(tower: bool) -> None:
    architecture = "timm/eva02_tiny_patch14_224"
    options = {"image_size": 28}
    theirs = encoder(architecture, **options)
    state = renamed(theirs, {"^fc_norm": "norm"})
    state |= {"mask_token": torch.zeros(1, 1, 192), "lm_head.weight": torch.zeros(9, 192)}
    state["rope.freqs_cos"] = torch.zeros(4, 64)
    if tower:
        state = TEXT | {f"visual.{name}": tensor for name, tensor in state.items()}
    ours, report = loaded(state, architecture, **options)
    assert report.new == ()
    assert set(TEXT) <= set(report.left_out) if tower else "mask_token" in report.left_out
    images = torch.randn(2, 3, 28, 28)
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(images), theirs.embed(images))


def test_dinov3(capsys: pytest.CaptureFixture[str]) -> None:
    architecture = "timm/vit_small_patch16_dinov3"
    theirs = encoder(architecture, **NARROW)
    names = {r"gamma_(\d)": r"ls\1.gamma", "^reg_token": "storage_tokens"}
    state = renamed(theirs, names)
    state |= {"mask_token": torch.zeros(1, 24), "rope_embed.periods": torch.zeros(3)}
    for block in range(2):
        state[f"blocks.{block}.attn.qkv.bias"] = torch.zeros(72)
        state[f"blocks.{block}.attn.qkv.bias_mask"] = torch.full((72,), float("nan"))
    ours, report = loaded(state, architecture, **NARROW)
    assert {"mask_token", "rope_embed.periods"} <= set(report.left_out)
    assert capsys.readouterr().out == ""  # timm prints while it converts
    assert_same_features(ours, theirs)
    state["blocks.1.attn.qkv.bias"][0] = 1.0
    with pytest.raises(CheckpointError, match=r"(?s)1\.attn\.qkv\.bias \(72,\).*dinov3_qkvb"):
        loaded(state, architecture, **NARROW)
