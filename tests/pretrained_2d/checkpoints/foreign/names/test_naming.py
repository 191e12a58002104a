"""Wrappers inside names, and several networks in one file."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pretrained_2d import CheckpointError, build
from pretrained_2d.checkpoints.foreign import TensorFile, load_foreign, read_tensors
from pretrained_2d.checkpoints.foreign.names.naming import without_inner_wrappers


def file_of(state: dict[str, Tensor]) -> TensorFile:
    return TensorFile(Path("weights.pth"), dict(state))


INNER = {
    "compiled blocks": ("timm/test_vit", "blocks.0.", "blocks.0._orig_mod."),
    "FSDP": ("timm/test_resnet", "layer", "_fsdp_wrapped_module.layer"),
    "checkpointed": ("timm/test_resnet", "layer1.", "layer1._checkpoint_wrapped_module."),
    "data parallel": ("timm/test_resnet", "layer1.", "layer1.module."),
    "chunks of DINOv2": ("timm/test_vit", "blocks.", "blocks.0."),
}


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.model."])
@pytest.mark.parametrize("kind", INNER)
def test_wrappers_of_single_layers_are_taken_out(kind: str, prefix: str) -> None:
    architecture, plain, wrapped = INNER[kind]
    theirs = build(architecture, num_classes=4).network.state_dict()
    state = {f"{prefix}{name.replace(plain, wrapped)}": t for name, t in theirs.items()}
    ours, _, report = load_foreign(file_of(state), architecture, {})
    assert "".join(report.prefixes) == prefix
    assert all(torch.equal(ours.network.state_dict()[name], t) for name, t in theirs.items())
    assert set(report.renamed.values()) == set(state)  # the report keeps the names of the file


def test_names_of_the_network_itself_are_no_wrappers() -> None:
    names = ["a.module.weight", "blocks.0.1.weight", "b._orig_mod.bias"]
    tidy = without_inner_wrappers(names, ["x.module.weight", "blocks.0.0.weight"])
    assert tidy == {**{name: name for name in names[:2]}, "b.bias": names[2]}
    two = ["a.b", "a._orig_mod.b"]
    assert without_inner_wrappers(two, []) == {name: name for name in two}


def test_an_average_beside_the_weights_is_chosen_by_its_prefix(tmp_path: Path) -> None:
    plain, average = (build("timm/test_resnet", num_classes=4).network for _ in range(2))
    state = {f"online_model.{n}": t for n, t in plain.state_dict().items()}
    state |= {f"ema_model.{n}": t for n, t in average.state_dict().items()}
    torch.save({"state_dict": state | {"step": torch.tensor(3)}}, tmp_path / "x.ckpt")
    first, _, report = load_foreign(read_tensors(tmp_path / "x.ckpt"), "timm/test_resnet", {})
    assert torch.equal(first.network.fc.weight, plain.fc.weight)
    assert report.other_entries == ("ema_model",)
    assert any("not used: ema_model (--entry)" in line for line in report.lines())
    file = read_tensors(tmp_path / "x.ckpt", "ema_model")
    chosen, _, report = load_foreign(file, "timm/test_resnet", {})
    assert torch.equal(chosen.network.fc.weight, average.fc.weight)
    assert (report.entry, report.left_out) == ("state_dict.ema_model", ())


UNUSABLE = {
    "FSDP shard": ({"_flat_param": torch.ones(9)}, "FULL_STATE_DICT"),
    "ZeRO-3 part": ({"fc.weight": torch.zeros(0)}, "zero_to_fp32"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_parts_of_parallel_training_name_what_joins_them(kind: str) -> None:
    state, message = UNUSABLE[kind]
    with pytest.raises(CheckpointError, match=message):
        load_foreign(file_of(state), "timm/test_resnet", {})


def test_sharded_parameters_of_fsdp_2_are_refused() -> None:
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        weight = distribute_tensor(torch.ones(4, 96), init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(CheckpointError, match=r"fc\.weight is a part .* full_state_dict=True"):
            load_foreign(file_of({"fc.weight": weight}), "timm/test_resnet", {})
    finally:
        distributed.destroy_process_group()


def test_only_weights_that_are_used_must_be_finite() -> None:
    state = dict(build("timm/test_resnet", num_classes=4).network.state_dict())
    state["mask"] = torch.tensor([1.0, float("nan")])
    _, _, report = load_foreign(file_of(state), "timm/test_resnet", {})
    assert report.left_out == ("mask",)
    state["fc.weight"] = state["fc.weight"] * float("nan")
    with pytest.raises(CheckpointError, match=r"fc\.weight has values that are not finite"):
        load_foreign(file_of(state), "timm/test_resnet", {})
