"""Archives of NumPy arrays as JAX programs write them, made from networks of timm."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pretrained_2d import CheckpointError, build, load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt

VIT = {"depth": 2, "embed_dim": 24, "num_heads": 3, "image_size": 64}
NAME = "timm/vit_tiny_patch16_224"


def heads_first(weight: Tensor, heads: int) -> Tensor:
    """(outputs, inputs) of queries, keys or values -> (inputs, heads, outputs / heads)."""
    return weight.T.reshape(len(weight), heads, -1)


def arrays_of_vit(state: dict[str, Tensor], heads: int, depth: int) -> dict[str, Tensor]:
    """The names and shapes of Google's Vision Transformer."""
    found = {
        "embedding/kernel": state["patch_embed.proj.weight"].permute(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "cls": state["cls_token"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        "Transformer/encoder_norm/scale": state["norm.weight"],
        "Transformer/encoder_norm/bias": state["norm.bias"],
    }
    if "head.weight" in state:
        found |= {"head/kernel": state["head.weight"].T, "head/bias": state["head.bias"]}
    for i in range(depth):
        ours, theirs = f"blocks.{i}.", f"Transformer/encoderblock_{i}/"
        attention = f"{theirs}MultiHeadDotProductAttention_1/"
        weights = state[f"{ours}attn.qkv.weight"].chunk(3)
        biases = state[f"{ours}attn.qkv.bias"].chunk(3)
        for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            found[f"{attention}{part}/kernel"] = heads_first(weight, heads)
            found[f"{attention}{part}/bias"] = bias.reshape(heads, -1)
        width = len(state[f"{ours}attn.proj.weight"])
        output = state[f"{ours}attn.proj.weight"].T.reshape(heads, -1, width)
        found[f"{attention}out/kernel"] = output
        found[f"{attention}out/bias"] = state[f"{ours}attn.proj.bias"]
        for number, norm in (("0", "norm1"), ("2", "norm2")):
            found[f"{theirs}LayerNorm_{number}/scale"] = state[f"{ours}{norm}.weight"]
            found[f"{theirs}LayerNorm_{number}/bias"] = state[f"{ours}{norm}.bias"]
        for number in (1, 2):
            dense = f"{theirs}MlpBlock_3/Dense_{number - 1}/"
            found[f"{dense}kernel"] = state[f"{ours}mlp.fc{number}.weight"].T
            found[f"{dense}bias"] = state[f"{ours}mlp.fc{number}.bias"]
    return found


def saved(path: Path, prefix: str = "", num_classes: int = 5, **options: Any) -> Any:
    """A network with weights nowhere at zero or one, saved as JAX saves it."""
    torch.manual_seed(0)
    network = build(NAME, **{**VIT, "num_classes": num_classes, **options}).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    depth = len(network.network.blocks)
    arrays = arrays_of_vit(network.network.state_dict(), 3, depth)
    np.savez(path, **{f"{prefix}{name}": tensor.numpy() for name, tensor in arrays.items()})
    return network


@pytest.mark.parametrize(("prefix", "num_classes"), [("", 5), ("opt/target/", 5), ("", 0)])
def test_a_vit_of_google_has_the_same_numbers(prefix, num_classes, tmp_path: Path) -> None:
    theirs = saved(tmp_path / "weights.npz", prefix, num_classes)
    head = None if num_classes else "drop"
    request = Adoption(
        checkpoint=tmp_path / "weights.npz", architecture=NAME, options=VIT, head=head
    )
    card, report = adopt(request, tmp_path / "model")
    assert card.options["num_classes"] == num_classes
    assert (report.new, report.left_out) == ((), ())
    ours, _ = load_checkpoint(tmp_path / "model")
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-5, atol=1e-6)


def test_labels_and_another_image_size(tmp_path: Path) -> None:
    theirs = saved(tmp_path / "weights.npz")
    shape = {name: value for name, value in VIT.items() if name != "image_size"}
    request = Adoption(
        checkpoint=tmp_path / "weights.npz",
        architecture=NAME,
        options=shape,
        image_size=96,
        labels=("a", "b"),
        head="new",
    )
    card, report = adopt(request, tmp_path / "model")
    ours, _ = load_checkpoint(tmp_path / "model")
    assert card.preprocessing.image_size == 96
    assert ours.network.pos_embed.shape[1] == 37
    assert torch.equal(ours.network.cls_token, theirs.network.cls_token)
    assert set(report.new) == {"network.head.weight", "network.head.bias"}


@pytest.mark.parametrize(
    ("architecture", "options", "message"),
    [
        (NAME, {"depth": 1}, "values in the layers after its first, .* name the network"),
        (NAME, {"depth": 3}, "does not fit timm/vit_tiny_patch16_224"),
        (NAME, {"embed_dim": 12}, "does not fit timm/vit_tiny_patch16_224"),
        ("timm/test_convnext", None, "timm reads them for ViTs and BiT ResNets .*, not for timm/t"),
        ("torchvision/resnet18", None, "not for torchvision/resnet18"),
    ],
)
def test_a_network_of_another_shape_is_refused(
    architecture: str, options: dict[str, int] | None, message: str, tmp_path: Path
) -> None:
    saved(tmp_path / "weights.npz")
    request = Adoption(
        checkpoint=tmp_path / "weights.npz",
        architecture=architecture,
        options={} if options is None else {**VIT, **options},
    )
    with pytest.raises(CheckpointError, match=message):
        adopt(request, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_objects_in_an_archive_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", a=np.array([print], dtype=object), allow_pickle=True)
    request = Adoption(checkpoint=tmp_path / "weights.npz", architecture=NAME)
    with pytest.raises(CheckpointError, match="is damaged or holds Python objects"):
        adopt(request, tmp_path / "model")
