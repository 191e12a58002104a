"""Folders of transformers become networks of timm with the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.errors import CheckpointError

transformers = pytest.importorskip("transformers")

TOKENS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
DINO = {**TOKENS, "mlp_ratio": 2}
DINO.pop("intermediate_size")
STAGES = {"depths": [1, 2, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
SWIN = {"image_size": 64, "patch_size": 2, "embed_dim": 8, "window_size": 4}
SWIN |= {"depths": [1, 2, 1, 1], "num_heads": [1, 2, 2, 4]}
RESNET = {"embedding_size": 64, "depths": [1, 2, 1, 1]}
# Class of the model, of its configuration, and its values. Classifiers give logits.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": ("ViTForImageClassification", "ViTConfig", {**TOKENS, "num_labels": 3}),
    "vit encoder": ("ViTModel", "ViTConfig", TOKENS),
    "dinov2": ("Dinov2Model", "Dinov2Config", DINO),
    "dinov2 registers": (
        "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", {**DINO, "num_register_tokens": 3},
    ),
    "dinov3": ("DINOv3ViTModel", "DINOv3ViTConfig", {**TOKENS, "num_register_tokens": 4}),
    "clip vision": ("CLIPVisionModel", "CLIPVisionConfig", TOKENS),
    "siglip vision": ("SiglipVisionModel", "SiglipVisionConfig", TOKENS),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {**STAGES, "num_labels": 3}),
    "convnextv2": (
        "ConvNextV2ForImageClassification", "ConvNextV2Config", {**STAGES, "num_labels": 3},
    ),
    "swin": ("SwinForImageClassification", "SwinConfig", {**SWIN, "num_labels": 3}),
    "swinv2": (
        "Swinv2ForImageClassification", "Swinv2Config",
        {**SWIN, "pretrained_window_sizes": [3, 3, 3, 2], "num_labels": 3},
    ),
    "dinov3 convnext": ("DINOv3ConvNextModel", "DINOv3ConvNextConfig", STAGES),
    "resnet": (
        "ResNetForImageClassification", "ResNetConfig",
        {**RESNET, "hidden_sizes": [64, 96, 128, 160], "num_labels": 3},
    ),
    "resnet basic": (
        "ResNetForImageClassification", "ResNetConfig",
        {**RESNET, "layer_type": "basic", "hidden_sizes": [64, 16, 24, 32], "num_labels": 3},
    ),
    "beit": (
        "BeitForImageClassification", "BeitConfig",
        {**TOKENS, "use_relative_position_bias": True, "num_labels": 3},
    ),
}  # fmt: skip


def model_of(name: str, **changes: Any) -> Any:
    """A network with random weights everywhere: nothing is left at zero or one."""
    kind, config, values = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**{**values, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for own, buffer in model.named_buffers():
            if own.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return model.eval()


def answer(model: Any, images: torch.Tensor) -> torch.Tensor:
    """Logits, the pooled output, or the class token of a plain ViT."""
    output = model(images)
    if getattr(output, "logits", None) is not None:
        return output.logits
    if type(model).__name__ == "ViTModel":
        return output.last_hidden_state[:, 0]
    return output.pooler_output


@pytest.mark.parametrize("name", MODELS)
def test_same_numbers_as_transformers(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    model.save_pretrained(tmp_path / "theirs")
    card, report = adopt(Adoption(checkpoint=tmp_path / "theirs"), tmp_path / "ours")
    network, _ = load_checkpoint(tmp_path / "ours")
    size = MODELS[name][2].get("image_size", 64)
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = answer(model, images)
        actual = network(images)
    assert actual.shape == expected.shape
    assert float((actual - expected).abs().max() / expected.abs().max()) < 1e-4
    assert not report.new
    assert card.architecture.startswith("timm/")


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_the_vision_tower_of_a_pair(name: str, tmp_path: Path) -> None:
    text = {**TOKENS, "vocab_size": 20, "max_position_embeddings": 8}
    kind = {"clip": "CLIP", "siglip": "Siglip"}[name]
    config = getattr(transformers, f"{kind}Config")(vision_config=TOKENS, text_config=text)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    adopt(Adoption(checkpoint=tmp_path / "theirs"), tmp_path / "ours")
    network, _ = load_checkpoint(tmp_path / "ours")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = model.vision_model(images).pooler_output
        torch.testing.assert_close(network(images), expected, rtol=1e-4, atol=1e-4)


OLD_NAMES = {
    ".layers.": ".encoder.layer.",
    ".attention.q_proj.": ".attention.attention.query.",
    ".attention.k_proj.": ".attention.attention.key.",
    ".attention.v_proj.": ".attention.attention.value.",
    ".attention.o_proj.": ".attention.output.dense.",
    ".mlp.fc1.": ".intermediate.dense.",
    ".mlp.fc2.": ".output.dense.",
}


@pytest.mark.parametrize("old", [True, False])
def test_names_of_both_versions(old: bool, tmp_path: Path) -> None:
    model = model_of("vit")
    model.save_pretrained(tmp_path / "theirs")
    weights = tmp_path / "theirs" / "model.safetensors"
    tensors = {}
    for name, tensor in model.state_dict().items():
        for new_part, old_part in OLD_NAMES.items() if old else ():
            name = name.replace(new_part, old_part)
        tensors[name] = tensor.contiguous()
    assert load_file(weights).keys()
    save_file(tensors, weights, metadata={"format": "pt"})
    adopt(Adoption(checkpoint=tmp_path / "theirs"), tmp_path / "ours")
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        actual = load_checkpoint(tmp_path / "ours")[0](images)
        torch.testing.assert_close(actual, model(images).logits, rtol=1e-4, atol=1e-4)


def test_labels_and_preprocessing_come_along(tmp_path: Path) -> None:
    labels = {0: "walk", 1: "run", 2: "jump"}
    model_of("vit", id2label=labels).save_pretrained(tmp_path / "theirs")
    preprocessor = {
        "size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32},
        "do_center_crop": True, "resample": 3,
        "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2],
    }  # fmt: skip
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    card, _ = adopt(Adoption(checkpoint=tmp_path / "theirs"), tmp_path / "ours")
    assert card.labels == ("walk", "run", "jump")
    inputs = card.preprocessing
    assert (inputs.image_size, inputs.resize, inputs.interpolation) == (32, 40, "bicubic")
    assert (inputs.mean, inputs.std) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    preprocessor |= {"size": {"height": 32, "width": 32}, "do_center_crop": False}
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    card, _ = adopt(Adoption(checkpoint=tmp_path / "theirs"), tmp_path / "squashed")
    assert (card.preprocessing.resize, card.preprocessing.squash) == (32, True)


def test_another_image_size_and_new_classes(tmp_path: Path) -> None:
    model_of("dinov2").save_pretrained(tmp_path / "theirs")
    request = Adoption(checkpoint=tmp_path / "theirs", image_size=48, labels=("a", "b"))
    card, report = adopt(request, tmp_path / "ours")
    network, _ = load_checkpoint(tmp_path / "ours")
    assert network(torch.randn(1, 3, 48, 48)).shape == (1, 2)
    assert card.preprocessing.image_size == 48
    assert report.new == ("network.head.weight", "network.head.bias")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "describes a 'bert' of transformers, which is not read; there"),
        ({"qkv_bias": False}, "qkv_bias is False; networks of timm have True there"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; expected one of gelu"),
    ],
)
def test_what_has_no_counterpart_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    model_of("vit").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(CheckpointError, match=message):
        adopt(Adoption(checkpoint=tmp_path), tmp_path / "ours")


def test_a_file_without_architecture_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(1)}, tmp_path / "weights.safetensors")
    with pytest.raises(CheckpointError, match="does not name its network: give the architecture"):
        adopt(Adoption(checkpoint=tmp_path / "weights.safetensors"), tmp_path / "ours")
