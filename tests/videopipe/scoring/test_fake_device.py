"""Inflation and prediction on a GPU that does not exist: tensors are fake, so no value is read."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.networks.convnext import ConvNeXt
from tests.pretrained_2d.networks.launches import Launches
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.planning.layer_plan import make_plan
from videopipe.scoring.batched_model import BatchedModel
from videopipe.scoring.clip_classifier import ClipClassifier
from videopipe.scoring.settings import Execution, Scoring

CUDA = torch.device("cuda")
METHODS = ("none", "i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention")
CARD = ModelCard(
    architecture="fake", ndim=3, num_frames=4, preprocessing=Preprocessing(image_size=32)
)
REBUILT = {
    "mixer": "s4nd", "depths": (1, 1, 1, 1), "widths": (4, 4, 4, 4), "num_classes": 3, "ndim": 3,
    "image_size": 32, "num_frames": 4, "axis": {"state": 4, "basis": "legs"},
}  # fmt: skip


class Copies(TorchDispatchMode):
    """Every copy from one device to another."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_):
            source = args[1] if function.overloadpacket is torch.ops.aten.copy_ else args[0]
            if source.device.type != result.device.type:
                self.made.append((source.device.type, result.device.type))
        return result


def image_network() -> nn.Module:
    """A convolution with batch norm, a depthwise one, a head."""
    body = (
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8),
    )
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))


def on_meta(name: str) -> nn.Module:
    """A network rebuilt with time, or inflated by a method where its parameters are.

    The plan of an inflation comes from a CPU: its trial run compares values.
    """
    if name == "rebuilt":
        return ConvNeXt(**REBUILT).to("meta").eval()
    plan = make_plan(image_network(), InflationOptions(method=name, num_frames=4), 32)
    return FoldedNetwork(image_network().to("meta"), plan).eval()


@pytest.mark.parametrize("name", [*METHODS, "rebuilt"])
def test_clips_are_classified_without_leaving_the_device(name):
    network = on_meta(name)
    tensors = [*network.parameters(), *network.buffers()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    with FakeTensorMode(allow_non_fake_inputs=True):
        classify = ClipClassifier(network.to_empty(device=CUDA), CARD, Scoring(embeddings=True))
        clips = torch.empty(2, 3, 4, 32, 32, dtype=torch.uint8, device=CUDA)
        with Launches():
            logits, embeddings = classify(clips)
    assert logits.device.type == "cuda"
    assert embeddings.device.type == "cuda"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_is_one_copy_to_the_device(monkeypatch, precision):
    """Clips of several videos; the outputs come back when the first of them is requested."""
    network = on_meta("s4nd")
    with FakeTensorMode(allow_non_fake_inputs=True):
        network.to_empty(device=CUDA)
    monkeypatch.setattr(nn.Module, "to", lambda network, *_, **__: network)  # fake ones cannot
    with FakeTensorMode(allow_non_fake_inputs=True), Copies() as copies:
        classify = ClipClassifier(network, CARD, Scoring(precision=precision))
        model = BatchedModel(classify, CUDA, Execution(batch_size=2))
        copies.made.clear()
        clips = [torch.empty(3, 4, 32, 32, dtype=torch.uint8) for _ in range(3)]
        waiting = [model.submit(clip) for clip in clips]
        assert copies.made == [("cpu", "cuda")]
        model.flush()
        assert copies.made == [("cpu", "cuda")] * 2
        assert [each.place for each in waiting] == [0, 1, 0]
        logits, _ = waiting[0].batch._on_device
        assert logits.device.type == "cuda"
        assert logits.shape == (2, 3)
