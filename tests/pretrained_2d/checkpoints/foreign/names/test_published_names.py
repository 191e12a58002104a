"""Weights under the names of other programs."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pretrained_2d import build
from pretrained_2d.checkpoints.foreign import TensorFile, load_foreign


def port_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our Inception-I3D under the names of the common PyTorch port."""
    renamed = {}
    for name, tensor in state.items():
        if name == "head.weight":
            tensor = tensor[:, :, None, None, None]
        name = re.sub(r"^layers\.conv_1a\.", "Conv3d_1a_7x7.", name)
        name = re.sub(r"^layers\.conv_2b\.", "Conv3d_2b_1x1.", name)
        name = re.sub(r"^layers\.conv_2c\.", "Conv3d_2c_3x3.", name)
        name = re.sub(r"^layers\.mixed_(\w\w)\.branch_0\.", r"Mixed_\1.b0.", name)
        name = re.sub(r"^layers\.mixed_(\w\w)\.branch_3\.", r"Mixed_\1.b3b.", name)
        name = re.sub(r"^layers\.mixed_(\w\w)\.branch_([12])\.0\.", r"Mixed_\1.b\2a.", name)
        name = re.sub(r"^layers\.mixed_(\w\w)\.branch_([12])\.1\.", r"Mixed_\1.b\2b.", name)
        name = name.replace(".conv.", ".conv3d.").replace(".norm.", ".bn.")
        renamed[re.sub(r"^head\.", "logits.conv3d.", name)] = tensor
    return renamed


@pytest.mark.parametrize("scale", ["none", "ones", "learned"])
def test_the_pytorch_port_of_inception_i3d(scale: str) -> None:
    theirs = build("inception_i3d", num_classes=6, norm_scale=scale != "none").eval()
    if scale == "learned":
        theirs.layers["mixed_4c"].branch_0.norm.weight.data.uniform_(0.5, 2)
    state = port_names(theirs.state_dict())
    assert "Mixed_3b.b0.conv3d.weight" in state
    for name in list(state):
        if name.endswith("running_mean"):
            state[name.replace("running_mean", "num_batches_tracked")] = torch.tensor(3)
    ours, found, report = load_foreign(TensorFile(Path("i3d.pth"), state), "inception_i3d", {})
    assert report.convention == "the names of the PyTorch port"
    assert found.get("norm_scale", False) == (scale == "learned")
    signal = torch.randn(1, 3, 4, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(ours(signal), theirs(signal))
