import argparse
import gzip
import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from pretrained_2d import CheckpointError
from pretrained_2d.checkpoints.foreign import read_tensors

TENSORS = {"a.weight": torch.randn(3, 2), "a.bias": torch.randn(3)}


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


@pytest.mark.parametrize("ending", [".pth", ".th", ".pkl", ".model", ".tar", ".safetensors2", ""])
@pytest.mark.parametrize("way", ["torch", "zip-free torch", "safetensors", "pickle", "arrays"])
def test_kinds_are_recognised_by_content(ending: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights{ending}"
    if way == "safetensors":
        save_file(TENSORS, path)
    elif way == "pickle":
        path.write_bytes(pickle.dumps(OrderedDict(TENSORS), protocol=2))
    elif way == "arrays":  # as Detectron's model zoo: Python 2 wrote them
        arrays = {name: tensor.numpy() for name, tensor in TENSORS.items()}
        path.write_bytes(pickle.dumps({"model": arrays, "__author__": "zoo"}, protocol=2))
    else:
        torch.save(TENSORS, path, _use_new_zipfile_serialization=way == "torch")
    file = read_tensors(path)
    assert file.entry == ("model" if way == "arrays" else "")
    assert all(torch.equal(file.tensors[name], tensor) for name, tensor in TENSORS.items())


def sharded(folder: Path, weight_map: dict[str, str]) -> Path:
    save_file({"a.weight": TENSORS["a.weight"]}, folder / "model-00001-of-00002.safetensors")
    save_file({"a.bias": TENSORS["a.bias"]}, folder / "model-00002-of-00002.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


PARTS = {
    "a.weight": "model-00001-of-00002.safetensors",
    "a.bias": "model-00002-of-00002.safetensors",
}


def test_weights_in_parts_are_joined(tmp_path: Path) -> None:
    index = sharded(tmp_path, PARTS)
    for path in (tmp_path, index):
        tensors = read_tensors(path).tensors
        assert list(tensors) == list(TENSORS)
        assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a.bias": "gone.safetensors"}, r"1 files that are missing, such as gone\.safetensors"),
        ({"a.bias": PARTS["a.weight"]}, r"places a\.bias in model-00001.*does not hold it"),
        ({"a.bias": "../elsewhere.safetensors"}, "files outside its folder"),
        ({"a.bias": 5}, "is not an index"),
    ],
)
def test_an_index_with_missing_files_is_an_error(changes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_tensors(sharded(tmp_path, PARTS | changes))


def test_parts_of_pickled_weights_and_folders_with_other_names(tmp_path: Path) -> None:
    saved(tmp_path / "open-00001-of-00002.bin", {"a.weight": TENSORS["a.weight"]})
    part = saved(tmp_path / "open-00002-of-00002.bin", {"a.bias": TENSORS["a.bias"]})
    places = {name: file.replace("model", "open") for name, file in PARTS.items()}
    places = {name: file.replace("safetensors", "bin") for name, file in places.items()}
    (tmp_path / "open.bin.index.json").write_text(json.dumps({"weight_map": places}))
    assert list(read_tensors(tmp_path).tensors) == list(TENSORS)
    with pytest.raises(CheckpointError, match=r"is part 2 of 2; give the file.*\.index\.json"):
        read_tensors(part)


def test_a_folder_with_one_file_of_weights(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("weights")
    saved(tmp_path / "open_clip_pytorch_model.bin", TENSORS)
    assert list(read_tensors(tmp_path).tensors) == list(TENSORS)
    saved(tmp_path / "other.bin", TENSORS)
    with pytest.raises(CheckpointError, match=r"it holds README.md, open_clip_.*name the file"):
        read_tensors(tmp_path)


def test_safetensors_and_folders_that_hold_them(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        assert torch.equal(read_tensors(path).tensors["a.bias"], TENSORS["a.bias"])


WRAPPERS = ["state_dict", "model", "model_state", "model_state_dict", "state_dict_ema", "net"]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_wrapper(wrapper: str, tmp_path: Path) -> None:
    content = {"epoch": 3, wrapper: TENSORS, "optimizer": {"state": {}, "param_groups": []}}
    file = read_tensors(saved(tmp_path / "x.pth", content))
    assert file.entry == wrapper
    assert file.other_entries == ()
    assert list(file.tensors) == list(TENSORS)


def test_wrappers_in_wrappers(tmp_path: Path) -> None:
    content = {"model": {"state_dict": TENSORS, "cfg": {"depth": 3}}, "epoch": 1}
    assert read_tensors(saved(tmp_path / "x.pth", content)).entry == "model.state_dict"


def test_of_several_sets_one_is_taken_and_the_others_named(tmp_path: Path) -> None:
    averaged = {name: tensor + 1 for name, tensor in TENSORS.items()}
    path = saved(tmp_path / "x.pth", {"state_dict_ema": averaged, "state_dict": TENSORS})
    file = read_tensors(path)
    assert (file.entry, file.other_entries) == ("state_dict", ("state_dict_ema",))
    chosen = read_tensors(path, "state_dict_ema")
    assert torch.equal(chosen.tensors["a.bias"], averaged["a.bias"])
    with pytest.raises(
        CheckpointError, match=r"no entry 'ema2' and no names.* state_dict, state_dict_ema"
    ):
        read_tensors(path, "ema2")


def test_one_set_of_weights_needs_no_known_name(tmp_path: Path) -> None:
    optimiser = {"state": {0: {"exp_avg": torch.ones(2)}}}
    content = {"shadow": TENSORS, "optimizer": optimiser, "epoch": 3}
    assert read_tensors(saved(tmp_path / "x.pth", content)).entry == "shadow"
    nested = {"model": TENSORS, "ema": {"decay": 0.9, "shadow": TENSORS}}
    file = read_tensors(saved(tmp_path / "x.pth", nested))
    assert (file.entry, file.other_entries) == ("model", ("ema",))
    assert read_tensors(tmp_path / "x.pth", "ema").entry == "ema.shadow"
    two = saved(tmp_path / "x.pth", {"slow": TENSORS, "fast": TENSORS, "epoch": 3})
    with pytest.raises(CheckpointError, match="--entry chooses one of slow, fast"):
        read_tensors(two)
    assert read_tensors(two, "fast").entry == "fast"


def test_settings_of_training_programs_are_no_obstacle(tmp_path: Path) -> None:
    content = {
        "model": TENSORS,
        "args": argparse.Namespace(lr=0.1, name="run"),
        "best": np.float64(0.5),
        "curve": np.arange(3.0),
    }
    assert read_tensors(saved(tmp_path / "x.pth", content)).entry == "model"


class Attack:
    """Unpickling this would write a file; a checkpoint can run any code in this way."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"echo executed > {self.target}",)


@pytest.mark.parametrize("protocol", ["torch", "zip-free torch", "torch 4", "plain pickle"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_pickle_that_runs_code_is_refused(protocol: str, hidden: bool, tmp_path: Path) -> None:
    target = tmp_path / "executed.txt"
    content = {"state_dict": TENSORS, "hook": Attack(target)} if hidden else Attack(target)
    path = tmp_path / "weights.pth"
    if protocol == "plain pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        newer, zipped = protocol == "torch 4", protocol != "zip-free torch"
        torch.save(
            content, path, pickle_protocol=4 if newer else 2, _use_new_zipfile_serialization=zipped
        )
    with pytest.raises(
        CheckpointError, match=r"refused.*\(posix\.system\).*can run any code.*state_dict"
    ):
        read_tensors(path)
    assert not target.exists()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "_codecs.encode"])
def test_a_pickle_gets_no_function_by_name(name: str, tmp_path: Path) -> None:
    module, _, function = name.rpartition(".")
    path, target = tmp_path / "weights.pkl", tmp_path / "executed.txt"
    argument = f"touch {target}" if function == "system" else f"open({str(target)!r}, 'w')"
    call = f"c{module}\n{function}\n(S{argument!r}\nS'rot13'\ntR.".encode()
    path.write_bytes(b"\x80\x02" + call)
    with pytest.raises(CheckpointError, match=f"refused.*{name}"):
        read_tensors(path)
    assert not target.exists()


def _html(path: Path) -> None:
    path.write_text("<!DOCTYPE html><html>Sign in to download</html>")


def _lfs(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n")


def _truncated(path: Path) -> None:
    torch.save({"w": torch.randn(100, 100)}, path)
    path.write_bytes(path.read_bytes()[:20_000])


def _truncated_safetensors(path: Path) -> None:
    save_file({"w": torch.randn(100, 100)}, path)
    path.write_bytes(path.read_bytes()[:20_000])


def _whole_model(path: Path) -> None:
    torch.save(nn.Linear(2, 2), path)


def _torchscript(path: Path) -> None:
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), path)


BAD_FILES = {
    "missing": ("x.pth", None, "does not exist"),
    "empty": ("x.pth", lambda p: p.write_bytes(b""), "is empty"),
    "random bytes": ("x.pth", lambda p: p.write_bytes(bytes(range(7, 256)) * 9), "damaged|refused"),
    "truncated": ("x.pth", _truncated, "damaged or not a PyTorch checkpoint"),
    "truncated safetensors": ("x.safetensors", _truncated_safetensors, "is damaged or not a safe"),
    "pickle named safetensors": (
        "x.safetensors",
        lambda p: torch.save(TENSORS, p),
        "is damaged or not a safetensors",
    ),
    "web page": ("x.pth", _html, "is a web page"),
    "pointer": ("x.safetensors", _lfs, "Git LFS pointer"),
    "unknown": ("x.pth", lambda p: p.write_bytes(b"1" * 99), "of an unknown format that is not"),
    "onnx": ("x.pth", lambda p: p.write_bytes(b"\x08\x07\x12" * 9), "an ONNX graph that is not"),
    "keras": ("x.pth", lambda p: p.write_bytes(b"\x89HDF\r\n\x1a\n" * 9), "an HDF5 file"),
    "whole model, pickled": (
        "x.pkl",
        lambda p: p.write_bytes(pickle.dumps(nn.Linear(2, 2))),
        r"refused.*torch\.nn\.modules\.linear\.Linear",
    ),
    "empty folder": ("x.pth", lambda p: p.mkdir(), "is a folder without model.safetensors"),
    "distributed checkpoint": (
        "x",
        lambda p: (p.mkdir(), (p / "__0_0.distcp").touch()),
        "is a distributed checkpoint; join it first: .* dcp_to_torch .* weights.pth",
    ),
    "gzip": ("x.pth", lambda p: p.write_bytes(gzip.compress(b"1" * 99)), "a gzip archive"),
    "whole model": ("x.pth", _whole_model, "refused.*torch.nn.modules.linear.Linear"),
    "program": ("x.pt", _torchscript, "is a TorchScript program"),
    "arrays of JAX": (
        "x.npz",
        lambda p: np.savez(p, **{"params/img/embedding/kernel": np.ones(3)}),
        r"archive of NumPy arrays.*--architecture timm/NAME",
    ),
    "a list": ("x.pth", lambda p: torch.save([1, 2], p), "holds a list, not named tensors"),
    "a tensor": ("x.pth", lambda p: torch.save(torch.zeros(2), p), "holds a Tensor"),
    "no weights": (
        "x.pth",
        lambda p: torch.save({"epoch": 3, "optimizer": {}}, p),
        "no weights under a known name.*it holds epoch, optimizer",
    ),
    "empty dictionary": ("x.pth", lambda p: torch.save({}, p), "it holds nothing"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_a_bad_file_is_named_with_a_remedy(kind: str, tmp_path: Path) -> None:
    name, write, message = BAD_FILES[kind]
    path = tmp_path / name
    if write is not None:
        write(path)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value)
