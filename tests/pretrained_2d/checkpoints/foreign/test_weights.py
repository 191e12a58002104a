from pathlib import Path

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from pretrained_2d import CheckpointError, build
from pretrained_2d.checkpoints.foreign import TensorFile, load_foreign


def file_of(state: dict[str, Tensor], name: str = "weights.pth") -> TensorFile:
    return TensorFile(Path(name), dict(state))


def with_noise(network: nn.Module) -> nn.Module:
    """Add noise to every weight, because zeros and ones would hide mistakes."""
    for parameter in network.parameters():
        with torch.no_grad():
            scale = 0.05 if parameter.ndim > 1 else 0.3
            parameter.add_(scale * torch.randn_like(parameter))
    return network.eval()


def original_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """timm's ConvNeXt under the names of the paper's own release."""
    import re

    renamed = {}
    for name, tensor in state.items():
        name = re.sub(r"^stem\.", "downsample_layers.0.", name)
        name = re.sub(r"^stages\.(\d)\.downsample\.", r"downsample_layers.\1.", name)
        name = re.sub(r"^stages\.(\d)\.blocks\.", r"stages.\1.", name)
        name = name.replace("conv_dw", "dwconv").replace("mlp.fc", "pwconv")
        renamed[re.sub(r"^head\.norm", "norm", name).replace("head.fc", "head")] = tensor
    return renamed


@pytest.mark.parametrize("source", ["timm", "torchvision", "original"])
def test_convnext_tiny_of_every_source_gives_the_source_s_logits(source: str) -> None:
    if source == "torchvision":
        theirs = with_noise(torchvision.models.convnext_tiny())
        state = theirs.state_dict()
    else:
        theirs = with_noise(timm.create_model("convnext_tiny"))
        state = theirs.state_dict()
        state = original_names(state) if source == "original" else state
    ours, _, report = load_foreign(file_of(state), "convnext_tiny", {})
    assert source in report.convention
    assert (report.left_out, report.new) == ((), ())
    signal = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal), rtol=1e-4, atol=1e-4)


def small_vit(**options) -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(img_size=32, embed_dim=24, depth=2, num_heads=2, **options)


def test_vit_of_timm_gives_timm_s_logits() -> None:
    theirs = with_noise(small_vit(num_classes=7))
    options = {"width": 24, "depth": 2, "heads": 2, "image_size": 32}
    ours, found, report = load_foreign(file_of(theirs.state_dict()), "vit_base", options)
    assert report.convention == "timm's names"
    assert found["num_classes"] == 7
    signal = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_vit_base_of_full_size(library: str) -> None:
    make = torchvision.models.vit_b_16 if library == "torchvision" else None
    theirs = with_noise(make() if make else timm.create_model("vit_base_patch16_224"))
    ours, _, report = load_foreign(file_of(theirs.state_dict()), "vit_base", {})
    assert library in report.convention
    signal = torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal), rtol=1e-4, atol=1e-4)


def test_vit_for_other_sizes_says_its_size() -> None:
    theirs = timm.create_model("vit_base_patch16_384", depth=1)
    _, found, _ = load_foreign(file_of(theirs.state_dict()), "vit_base", {"depth": 1})
    assert found["image_size"] == 384


PREFIXES = [
    "module.", "_orig_mod.", "layers.", "encoder.", "student.backbone.", "module.model.visual.",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("architecture", ["timm/test_resnet", "torchvision/mc3_18"])
def test_every_prefix_is_taken_off_and_reported(prefix: str, architecture: str) -> None:
    theirs = build(architecture, num_classes=4)
    state = {f"{prefix}{name}": tensor for name, tensor in theirs.network.state_dict().items()}
    ours, found, report = load_foreign(file_of(state), architecture, {})
    assert "".join(report.prefixes) == prefix
    assert found == {"num_classes": 4}
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)


def test_a_framework_s_extra_parts_are_left_out_and_reported() -> None:
    theirs = build("timm/test_resnet", num_classes=4).network
    state = {f"model.{name}": tensor for name, tensor in theirs.state_dict().items()}
    state["criterion.weight"] = torch.ones(4)
    _, _, report = load_foreign(file_of(state), "timm/test_resnet", {})
    assert report.prefixes == ("model.",)
    assert report.left_out == ("criterion.weight",)
    assert any("1 left out: criterion.weight" in line for line in report.lines())


def test_a_missing_head_is_new_and_reported() -> None:
    state = build("timm/test_resnet", num_classes=4).network.state_dict()
    body = {name: tensor for name, tensor in state.items() if not name.startswith("fc.")}
    _, found, report = load_foreign(file_of(body), "timm/test_resnet", {"num_classes": 9})
    assert report.new == ("network.fc.weight", "network.fc.bias")
    assert found["num_classes"] == 9


def test_half_precision_is_converted_and_reported() -> None:
    theirs = build("timm/test_resnet").half()
    ours, _, report = load_foreign(file_of(theirs.network.state_dict()), "timm/test_resnet", {})
    assert next(ours.parameters()).dtype == torch.float32
    assert "converted from float16 to float32" in report.notes


def unnamed(network: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors in order, under names that contain only their kind."""
    return {
        f"part_{index}.{name.rpartition('.')[2]}": tensor
        for index, (name, tensor) in enumerate(network.state_dict().items())
        if not name.endswith("num_batches_tracked")
    }


def test_tensors_are_matched_by_structure_where_names_differ() -> None:
    theirs = with_noise(build("timm/test_resnet", num_classes=4))
    state = unnamed(theirs.network)
    ours, found, report = load_foreign(file_of(state), "timm/test_resnet", {})
    assert "order and shapes" in report.convention
    assert len(report.renamed) == report.matched == len(state)
    assert found["num_classes"] == 4
    signal = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal))


def test_structure_leaves_out_a_head_that_is_not_wanted() -> None:
    theirs = with_noise(build("timm/test_resnet", num_classes=4))
    state = unnamed(theirs.network)
    encoder, found, report = load_foreign(file_of(state), "timm/test_resnet", {}, head="drop")
    assert "order and shapes" in report.convention
    assert found["num_classes"] == 0
    assert report.left_out == tuple(list(state)[-2:])
    signal = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(encoder(signal), theirs.embed(signal))


def test_structure_leaves_out_a_private_head_of_two_layers() -> None:
    theirs = with_noise(build("timm/test_resnet", num_classes=0))
    head = {
        f"private_{place}.{kind}": torch.zeros(5, *size)
        for place in (1, 3)
        for kind, size in (("weight", (5,)), ("bias", ()))
    }
    state = {**unnamed(theirs.network), **head}
    ours, found, report = load_foreign(file_of(state), "timm/test_resnet", {"num_classes": 6})
    assert report.left_out == tuple(head)
    assert report.new == ("network.fc.weight", "network.fc.bias")
    assert found["num_classes"] == 6
    signal = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(signal), theirs.embed(signal))
    deeper = {**state, "private_5.weight": torch.zeros(5, 5)}
    with pytest.raises(CheckpointError, match="does not fit"):
        load_foreign(file_of(deeper), "timm/test_resnet", {"num_classes": 6})


def test_original_names_of_a_network_that_timm_has_go_through_timm() -> None:
    theirs = with_noise(timm.create_model("convnext_tiny", num_classes=3))
    state = {f"module.{name}": t for name, t in original_names(theirs.state_dict()).items()}
    ours, _, report = load_foreign(file_of(state), "timm/convnext_tiny", {})
    assert report.convention == "timm's own conversion"
    assert report.prefixes == ("module.",)
    signal = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal))


def test_positions_for_another_size_are_resampled_by_timm_and_reported() -> None:
    theirs = timm.create_model("test_vit", img_size=96).state_dict()
    size = timm.create_model("test_vit").pos_embed.shape
    assert theirs["pos_embed"].shape != size
    _, _, report = load_foreign(file_of(theirs), "timm/test_vit", {})
    assert report.convention == "timm's own conversion"
    assert any("pos_embed" in note and "by timm" in note for note in report.notes)
    ours, found, plain = load_foreign(file_of(theirs), "timm/test_vit", {"image_size": 96})
    assert plain.notes == ()
    assert torch.equal(ours.network.pos_embed, theirs["pos_embed"])
    assert found["image_size"] == 96


def test_two_names_for_one_weight_are_not_merged() -> None:
    state = _tiny_convnext()
    state["head.weight"] = torch.randn(3, 8)  # and head.fc.weight, both our head
    with pytest.raises(CheckpointError, match=r"head\.weight \(3, 8\)"):
        load_foreign(file_of(state), "convnext_tiny", SMALL)


def test_tensors_in_another_order_are_not_matched_by_structure() -> None:
    state = build("timm/test_resnet").network.state_dict()
    names = list(state)
    other = {f"x{i}.{n.rpartition('.')[2]}": state[n] for i, n in enumerate(reversed(names))}
    with pytest.raises(CheckpointError, match="does not fit timm/test_resnet"):
        load_foreign(file_of(other), "timm/test_resnet", {})


def _tiny_convnext() -> dict[str, Tensor]:
    options = {"depths": (1, 1, 2, 1), "dims": (8, 8, 8, 8), "num_classes": 3}
    return timm.models.convnext.ConvNeXt(**options).state_dict()


SMALL = {"depths": [1, 1, 2, 1], "widths": [8, 8, 8, 8]}


def _deeper(state):
    extra = {n.replace("blocks.1", "blocks.2"): t for n, t in state.items() if "2.blocks.1" in n}
    return {**state, **extra}


def _without_statistics(state):
    return {name: t for name, t in state.items() if "running" not in name}


MISFITS = {
    "a layer is missing": (
        "convnext_tiny",
        lambda s: {n: t for n, t in s.items() if "stages.1.blocks.0.mlp.fc1" not in n},
        r"stages\.1\.blocks\.0\.mlp\.fc1\.weight \(32, 8\) +missing",
    ),
    "a layer is too many": (
        "convnext_tiny",
        _deeper,
        r"– +stages\.2\.blocks\.2\.conv_dw\.weight \(8, 1, 7, 7\)",
    ),
    "a shape differs": (
        "convnext_tiny",
        lambda s: {**s, "stem.0.weight": torch.zeros(8, 3, 2, 2)},
        r"stem\.conv\.weight \(8, 3, 4, 4\) +stem\.0\.weight \(8, 3, 2, 2\)",
    ),
    "a name differs": (
        "convnext_tiny",
        lambda s: {n.replace("mlp.fc1", "mlp.first"): t for n, t in s.items()},
        r"mlp\.fc1\.weight \(32, 8\) +missing; nearest: stages\.0\.blocks\.0\.mlp\.first\.weight",
    ),
    "another network": (
        "timm/test_resnet",
        lambda s: s,
        r"does not fit timm/test_resnet[\s\S]*--architecture \(videopipe models 'timm/\*'\)",
    ),
    "not finite": (
        "convnext_tiny",
        lambda s: {**s, "stem.0.bias": torch.full((8,), torch.nan)},
        r"stem\.0\.bias has values that are not finite",
    ),
    "sparse": (
        "convnext_tiny",
        lambda s: {**s, "head.fc.weight": s["head.fc.weight"].to_sparse()},
        "quantised, sparse or complex",
    ),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_a_mismatch_shows_names_and_shapes_side_by_side(kind: str) -> None:
    architecture, change, message = MISFITS[kind]
    options = SMALL if architecture == "convnext_tiny" else {}
    with pytest.raises(CheckpointError, match=message):
        load_foreign(file_of(change(_tiny_convnext())), architecture, options)


def test_batch_statistics_are_never_made_up() -> None:
    state = _without_statistics(build("timm/test_resnet").network.state_dict())
    with pytest.raises(CheckpointError, match="running_mean"):
        load_foreign(file_of(state), "timm/test_resnet", {})


def test_classes_that_were_asked_for_must_be_the_file_s() -> None:
    with pytest.raises(CheckpointError, match="distinguishes 3 classes, but 5 are asked for"):
        load_foreign(file_of(_tiny_convnext()), "convnext_tiny", {**SMALL, "num_classes": 5})
