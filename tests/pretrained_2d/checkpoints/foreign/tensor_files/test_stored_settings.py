"""Settings of training programs beside the weights; their classes are never imported."""

import argparse
import pickle
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import datetime, timedelta
from pathlib import Path, PureWindowsPath
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from pretrained_2d import CheckpointError
from pretrained_2d.checkpoints.foreign import read_tensors
from pretrained_2d.checkpoints.foreign.tensor_files.stored_settings import SETTINGS

DATA = Path(__file__).parents[4] / "data"
TENSORS = {"a.weight": torch.randn(3, 2), "a.bias": torch.randn(3).bfloat16()}
NUMBERS = "?bhilqBHILQefdFD"
PLAIN = {
    "namespace": argparse.Namespace(out=Path("/runs"), betas=(0.9, 0.99), name=None),
    "paths": [Path("/runs"), PureWindowsPath("C:/runs")],
    "simple namespace": SimpleNamespace(lr=0.1),
    "times": (datetime(2026, 1, 2), timedelta(3)),
    "numbers of numpy": [np.dtype(kind).type(1) for kind in NUMBERS],
    "words of numpy": (np.str_("cat"), np.array(["cat", "dog"])),
    "random states": (np.random.get_state(), random.getstate(), torch.get_rng_state()),
    "containers": (defaultdict(list, {"loss": [0.5]}), Counter("aab"), deque([1, 2]), {1, 2}),
    "words of torch": (torch.float16, torch.device("cuda", 1), torch.Size([2])),
    "rare builtins": (frozenset([1]), range(3), slice(1, 2), 1j),
    "optimiser": torch.optim.AdamW([torch.ones(2, requires_grad=True)]).state_dict(),
}


def written(path: Path, content: object, way: str) -> Path:
    if way == "plain pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        protocol = 4 if way == "protocol 4" else 2
        torch.save(
            content, path, pickle_protocol=protocol,
            _use_new_zipfile_serialization=way != "zip-free torch",
        )  # fmt: skip
    return path


WAYS = ["torch", "zip-free torch", "protocol 4", "plain pickle"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_data_beside_the_weights_is_read(kind: str, way: str, tmp_path: Path) -> None:
    content = {"args": PLAIN[kind], "model": TENSORS, "extra": PLAIN[kind]}
    file = read_tensors(written(tmp_path / "x.pth", content, way))
    assert file.entry == "model"
    assert all(torch.equal(file.tensors[name], tensor) for name, tensor in TENSORS.items())


# As the libraries define them; a checkpoint holds no more of them than this.
BASES = {
    "AttributeDict": dict, "CfgNode": dict, "ConfigDict": dict, "Dict": dict, "EasyDict": dict,
}  # fmt: skip
FOREIGN = [
    name
    for name in SETTINGS
    if name.partition(".")[0] not in ("builtins", "collections", "datetime", "pathlib", "typing")
    and name != "types.SimpleNamespace"
]


@pytest.mark.parametrize("full_name", FOREIGN)
def test_settings_of_libraries_are_read_without_them(
    full_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = full_name.rpartition(".")
    for end in range(module.count(".") + 1):
        part = ".".join(module.split(".")[: end + 1])
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    stored_class = type(name, (BASES.get(name, object),), {"__module__": module})
    monkeypatch.setattr(sys.modules[module], name, stored_class, raising=False)
    setting = stored_class()
    setting.__dict__["_content"] = {"lr": 0.1}
    if isinstance(setting, dict):
        setting["nested"] = stored_class()
    content = {"model": TENSORS, "cfg": setting, "kind": stored_class, "by": {stored_class: 1}}
    paths = [written(tmp_path / f"{way}.pth", content, way) for way in WAYS]
    monkeypatch.undo()
    assert module not in sys.modules or not hasattr(sys.modules[module], name)
    for path in paths:
        assert list(read_tensors(path).tensors) == list(TENSORS)
    assert module not in sys.modules or not hasattr(sys.modules[module], name)


def test_a_checkpoint_of_lightning_with_settings_of_omegaconf() -> None:
    file = read_tensors(DATA / "lightning_omegaconf.ckpt")  # written by omegaconf 2.4
    assert file.entry == "state_dict"
    assert torch.equal(file.tensors["a.weight"], torch.ones(2, 1))
    assert "omegaconf" not in sys.modules


class OwnClass:
    """A class of the training program itself, which no list can know."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("named", [OwnClass, OwnClass(), torch.nn.Linear(2, 2)])
def test_other_classes_are_refused_by_name(named: object, way: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.pth", OrderedDict(model=TENSORS, hook=named), way)
    name = "OwnClass" if named is OwnClass or isinstance(named, OwnClass) else "Linear"
    with pytest.raises(CheckpointError, match=rf"is refused: .*\(\S+\.{name}\).*state_dict"):
        read_tensors(path)


def test_protocols_that_are_not_read_say_so(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save(TENSORS, path, pickle_protocol=5, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"old format of torch\.save.*protocol above 3.*save"):
        read_tensors(path)
    arrays = {name: tensor.float().numpy() for name, tensor in TENSORS.items()}
    path.write_bytes(pickle.dumps(arrays, protocol=5))
    assert list(read_tensors(path).tensors) == list(TENSORS)
