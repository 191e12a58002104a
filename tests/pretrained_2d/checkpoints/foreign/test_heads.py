"""Common kinds of files: private heads, other heads, encoders, several networks in one file."""

from math import isqrt
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from pretrained_2d import CheckpointError, build, load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, TensorFile, adopt, load_foreign

SIGNAL = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def file_of(state: dict[str, Tensor]) -> TensorFile:
    return TensorFile(Path("weights.pth"), dict(state))


def trunk(architecture: str, heads: tuple[str, ...]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network, and its tensors without the head, by the library's names."""
    network = build(architecture, num_classes=4).eval()
    state = network.network.state_dict()
    return network, {name: t for name, t in state.items() if not name.startswith(heads)}


PRIVATE_HEADS = {
    "torchvision/resnet18": (("fc.",), {"fc.1": (64, 512), "fc.3": (7, 64)}),
    "torchvision/mobilenet_v2": (("classifier.",), {"classifier.0": (7, 1280)}),
    "timm/test_resnet": (("fc.",), {"fc.0": (7, 9), "head.mlp.2": (3, 3)}),
    "timm/test_convnext": (("head.fc.",), {"head.fc.proj": (5, 64)}),
    "timm/test_vit": (("head.",), {"head.weight_g": (5, 64), "projector.0": (3, 3)}),
}


@pytest.mark.parametrize("prefix", ["", "layers.", "module.student.backbone."])
@pytest.mark.parametrize("architecture", PRIVATE_HEADS)
def test_a_private_head_is_left_out_and_the_network_s_is_new(architecture, prefix) -> None:
    heads, private = PRIVATE_HEADS[architecture]
    theirs, state = trunk(architecture, heads)
    for name, shape in private.items():
        state[f"{name}.weight"], state[f"{name}.bias"] = torch.randn(shape), torch.randn(shape[0])
    file = file_of({f"{prefix}{name}": tensor for name, tensor in state.items()})
    ours, options, report = load_foreign(file, architecture, {"num_classes": 6})
    assert "".join(report.prefixes) == prefix
    expected = {f"{prefix}{name}.{kind}" for name in private for kind in ("weight", "bias")}
    assert set(report.left_out) == expected
    assert report.new == tuple(f"{ours.heads[0]}.{kind}" for kind in ("weight", "bias"))
    assert options["num_classes"] == len(ours.head.weight) == 6
    assert any("the head is new, for 6 classes" in note for note in report.notes)
    size = 160 if architecture == "timm/test_vit" else 64
    signal = torch.randn(2, 3, size, size)
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(signal), theirs.embed(signal))
    with pytest.raises(CheckpointError, match=r"does not fit[\s\S]*without --head strict"):
        load_foreign(file, architecture, {"num_classes": 6}, head="strict")


def test_a_head_of_the_same_name_on_other_features_is_private_too() -> None:
    _, state = trunk("timm/test_resnet", ("fc.",))
    state |= {"fc.weight": torch.randn(5, 11), "fc.bias": torch.randn(5)}
    _, _, report = load_foreign(file_of(state), "timm/test_resnet", {})
    assert set(report.left_out) == {"fc.weight", "fc.bias"}
    assert report.new == ("network.fc.weight", "network.fc.bias")


@pytest.mark.parametrize("architecture", ["timm/test_resnet", "torchvision/resnet18"])
def test_head_decides_what_becomes_of_a_head_that_fits(architecture: str) -> None:
    theirs = build(architecture, num_classes=4).eval()
    file = file_of({f"model.{n}": t for n, t in theirs.network.state_dict().items()})
    kept, options, _ = load_foreign(file, architecture, {}, head="strict")
    assert torch.equal(kept.head.weight, theirs.head.weight)
    new, options, report = load_foreign(file, architecture, {"num_classes": 9}, head="new")
    assert len(new.head.weight) == options["num_classes"] == 9
    assert set(report.left_out) == {"model.fc.weight", "model.fc.bias"}
    encoder, options, report = load_foreign(file, architecture, {}, head="drop")
    assert options["num_classes"] == 0
    assert (encoder.heads, report.new) == ((), ())
    assert set(report.left_out) == {"model.fc.weight", "model.fc.bias"}
    with torch.inference_mode():
        torch.testing.assert_close(encoder.embed(SIGNAL), theirs.embed(SIGNAL))


def test_our_own_networks_lose_their_head_too() -> None:
    small = {"depths": [1, 1, 1, 1], "widths": [4, 4, 8, 8]}
    theirs = build("convnext_tiny", num_classes=3, **small).eval()
    file = file_of(theirs.state_dict())
    encoder, options, report = load_foreign(file, "convnext_tiny", small, head="drop")
    assert options["num_classes"] == 0
    assert set(report.left_out) == {"head.weight", "head.bias"}
    with torch.inference_mode():
        torch.testing.assert_close(encoder(SIGNAL), theirs.embed(SIGNAL))


@pytest.mark.parametrize("pair", [("student.", "teacher."), ("module.encoder_q.", "module.enc_k.")])
def test_of_two_networks_in_one_file_the_first_is_taken(pair: tuple[str, str]) -> None:
    nets = [build("timm/test_resnet", num_classes=4) for _ in pair]
    state = {
        f"{prefix}{name}": tensor
        for prefix, network in zip(pair, nets, strict=True)
        for name, tensor in network.network.state_dict().items()
    }
    state["module.queue"] = torch.randn(8, 8)
    ours, _, report = load_foreign(file_of(state), "timm/test_resnet", {})
    assert "".join(report.prefixes) == pair[0]
    assert torch.equal(ours.network.fc.weight, nets[0].network.fc.weight)
    assert all(name.startswith((pair[1], "module.queue")) for name in report.left_out)


def dino_file(path: Path, entry: str | None = None) -> nn.Module:
    """A file as DINOv2 is published: 518 pixels, a mask token, no head."""
    network = build("timm/vit_small_patch14_dinov2", depth=1).eval()
    state = dict(network.network.state_dict())
    state["mask_token"] = torch.zeros(1, 384)
    if entry is not None:
        state = {entry: {f"backbone.{name}": tensor for name, tensor in state.items()}}
    torch.save(state, path)
    return network


@pytest.mark.parametrize("entry", [None, "teacher"])
def test_an_encoder_is_adopted(entry: str | None, tmp_path: Path) -> None:
    theirs = dino_file(tmp_path / "dino.pth", entry)
    request = Adoption(
        checkpoint=tmp_path / "dino.pth",
        architecture="timm/vit_small_patch14_dinov2",
        options={"depth": 1},
    )
    card, report = adopt(request, tmp_path / "model")
    assert (card.options["num_classes"], card.labels) == (0, None)
    assert (card.preprocessing.image_size, report.new) == (518, ())
    network, _ = load_checkpoint(tmp_path / "model")
    assert torch.equal(network.network.pos_embed, theirs.network.pos_embed)
    assert all(
        torch.equal(network.state_dict()[name], tensor)
        for name, tensor in theirs.state_dict().items()
    )


def test_an_encoder_is_adopted_at_another_image_size(tmp_path: Path) -> None:
    theirs = dino_file(tmp_path / "dino.pth")
    request = Adoption(
        checkpoint=tmp_path / "dino.pth",
        architecture="timm/vit_small_patch14_dinov2",
        image_size=112,
        labels=("a", "b"),
        options={"depth": 1},
    )
    card, report = adopt(request, tmp_path / "model")
    assert card.preprocessing.image_size == card.options["image_size"] == 112
    assert any("pos_embed" in note for note in report.notes)
    network, _ = load_checkpoint(tmp_path / "model")
    assert network.network.pos_embed.shape == (1, 65, 384)
    assert report.new == ("network.head.weight", "network.head.bias")
    from timm.layers import resample_abs_pos_embed

    expected = resample_abs_pos_embed(theirs.network.pos_embed, [8, 8], num_prefix_tokens=1)
    torch.testing.assert_close(network.network.pos_embed, expected)
    assert network(torch.randn(1, 3, 112, 112)).shape == (1, 2)


@pytest.mark.parametrize(
    ("architecture", "options", "name"),
    [
        ("vit_base", {"depth": 1, "width": 12}, "positions"),
        pytest.param(
            "torchvision/vit_b_16", {}, "network.encoder.pos_embedding", marks=pytest.mark.slow
        ),
    ],
)
def test_position_tables_follow_the_image_size(architecture, options, name, tmp_path) -> None:
    theirs = build(architecture, num_classes=3, image_size=64, **options).state_dict()
    torch.save({n.removeprefix("network."): t for n, t in theirs.items()}, tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture=architecture, image_size=96, options=options
    )
    card, report = adopt(request, tmp_path / "model")
    network, _ = load_checkpoint(tmp_path / "model")
    assert network.state_dict()[name].shape[1] == 37
    assert any("resampled to (1, 37" in note for note in report.notes)
    torch.testing.assert_close(network.state_dict()[name][:, 0], theirs[name][:, 0])
    assert network(torch.randn(1, 3, 96, 96)).shape == (1, 3)
    assert card.options["image_size"] == 96


def of_tokens(table: torch.Tensor) -> torch.Tensor:
    return table.transpose(1, 2).unflatten(2, (isqrt(table.shape[1]), -1))


def of_channels_last(table: torch.Tensor) -> torch.Tensor:
    return table.permute(0, 3, 1, 2)


def of_channels_first(table: torch.Tensor) -> torch.Tensor:
    return table


@pytest.mark.parametrize(
    ("architecture", "options", "grid"),
    [
        ("timm/cait_xxs24_224", {"depth": 1, "embed_dim": 16}, of_tokens),
        pytest.param("timm/volo_d1_224", {}, of_channels_last, marks=pytest.mark.slow),
        ("timm/pit_ti_224", {}, of_channels_first),
    ],
)
def test_position_tables_that_timm_leaves_are_resampled(
    architecture, options, grid, tmp_path: Path
) -> None:
    theirs = build(architecture, num_classes=3, image_size=224, **options).network.state_dict()
    torch.save(theirs, tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture=architecture, image_size=128, options=options
    )
    _, report = adopt(request, tmp_path / "model")
    assert any(note.startswith("network.pos_embed: ") for note in report.notes)
    network, _ = load_checkpoint(tmp_path / "model")
    found = grid(network.network.pos_embed)
    expected = interpolate(
        grid(theirs["pos_embed"]), found.shape[2:], mode="bicubic", antialias=True
    )
    torch.testing.assert_close(found, expected)
    assert network(torch.randn(1, 3, 128, 128)).shape == (1, 3)


def test_a_position_table_that_cannot_be_resampled_names_the_option(tmp_path: Path) -> None:
    options = {"depth": 1, "width": 12}
    state = build("vit_base", image_size=64, **options).state_dict()
    torch.save({**state, "positions": torch.zeros(1, 40, 12)}, tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture="vit_base", image_size=96, options=options
    )
    with pytest.raises(CheckpointError, match="cannot be resampled: give --image-size of the file"):
        adopt(request, tmp_path / "model")


@pytest.mark.slow
def test_the_attention_pool_of_a_resnet_of_clip_follows_the_image_size(tmp_path: Path) -> None:
    theirs = build("timm/resnet50_clip", num_classes=0, image_size=128).network.eval()
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture="timm/resnet50_clip", image_size=96, head="drop"
    )
    _, report = adopt(request, tmp_path / "model")
    assert "network.head.pos_embed: (17, 2048) resampled to (10, 2048)" in report.notes
    network, _ = load_checkpoint(tmp_path / "model")
    images = torch.randn(1, 3, 96, 96)
    with torch.no_grad():  # timm resamples the table in the forward pass
        torch.testing.assert_close(network.embed(images), theirs(images), rtol=1e-4, atol=1e-5)


def test_labels_contradict_a_dropped_head(tmp_path: Path) -> None:
    dino_file(tmp_path / "dino.pth")
    request = Adoption(
        checkpoint=tmp_path / "dino.pth", architecture="timm/test_vit", head="drop", labels=("a",)
    )
    with pytest.raises(CheckpointError, match="labels are given, but head is drop"):
        adopt(request, tmp_path / "model")
