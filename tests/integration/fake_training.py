"""The training loop's own steps on a device that does not exist, for networks of every kind.

Tensors are fake, so a value that is read is an error, and so is a tensor of another device. Printed
is one line for each network. `float32` as the argument takes double precision away, as MPS does.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.convnext import ConvNeXt
from pretrained_2d.networks.vit import ViT
from pretrained_2d.training import loop
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.train import Phase
from s4nd.kernels import kernel_sampling
from tests.pretrained_2d.networks.launches import Launches
from tests.videopipe.inflation.small_network import Small
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.planning.layer_plan import make_plan

SIZE, FRAMES = 32, 4
AXIS = {"state": 4, "basis": "legs"}
LABELS = ("x", "y", "z")
HOST = torch.Generator()
METHODS = ("none", "i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention")


class Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


class NoDoubles(TorchDispatchMode):
    """Refuses tensors in double precision on the device."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, Tensor) and value.device.type == "other":
                assert value.dtype != torch.float64, f"{function} makes a float64 tensor"
        return result


def rebuilt() -> nn.Module:
    sizes = {"depths": (1, 1, 1, 1), "widths": (4, 4, 4, 4), "image_size": SIZE}
    return ConvNeXt(mixer="s4nd", axis=AXIS, num_classes=3, ndim=3, num_frames=FRAMES, **sizes)


def images() -> nn.Module:
    return ViT(mixer="s4nd", axis=AXIS, image_size=SIZE, patch=8, width=6, depth=2, num_classes=3)


def folded(method: str) -> nn.Module:
    """Inflated where its parameters are. The plan comes from a CPU: its trial run reads values."""
    options = InflationOptions(method=method, num_frames=FRAMES)
    return FoldedNetwork(Small().to("meta"), make_plan(Small(), options, SIZE))


def train(make: Callable[[], nn.Module], out: Path, **settings: object) -> None:
    """Two steps of two parts each with everything switched on, then one evaluation."""
    network = make()
    recipe = Recipe(
        epochs=1, batch_size=4, accumulation=2, clip_grad_norm=1.0, ema_decay=0.9, mixup=0.8,
        cutmix=1.0, label_smoothing=0.1, workers=0, **settings,
    )  # fmt: skip
    shape = (3, SIZE, SIZE) if isinstance(network, ViT) else (3, FRAMES, SIZE, SIZE)
    phase = Phase(data=[None] * 8, epochs=1, normalize=lambda pixels: pixels.float() / 255)
    with FakeTensorMode(allow_non_fake_inputs=True):
        network = network.to_empty(device="other")
        with patch.object(torch, "Generator", lambda **_: HOST):  # of stochastic rounding, off
            run = loop.TrainingRun(
                network, [phase], recipe=recipe, card=ModelCard(architecture="fake", labels=LABELS),
                out=out, objective="cross_entropy", evaluate=None, monitor=(), groups=None,
                on_progress=None,
            )  # fmt: skip
        pixels = torch.empty(2, *shape, dtype=torch.uint8, device="other")
        targets = torch.empty(2, dtype=torch.long, device="other")
        run.learner.trained.train()
        run._take_step(run.spans[0], iter([(pixels, targets)] * 2))  # makes the optimiser's state
        with Launches(), DOUBLES():
            run._take_step(run.spans[0], iter([(pixels, targets)] * 2))
            with run.learner.evaluated() as kept, torch.no_grad():
                logits = kept(phase.normalize(pixels))
        assert logits.device.type == "other"
        assert logits.shape == (2, 3)
        assert kept is not network, "the average of the weights is evaluated"
    assert run.step == 2


if __name__ == "__main__":
    backend_registration._setup_privateuseone_for_python_backend("other", backend_module=Backend())
    os.environ["ACCELERATE_TORCH_DEVICE"] = "other"
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    nn.Module.to = lambda network, *_, **__: network  # fake tensors cannot be exchanged
    DOUBLES: Callable[[], object] = nullcontext
    if "float32" in sys.argv:
        DOUBLES = NoDoubles
        kernel_sampling.accurate_dtype = lambda _: torch.float32
    made: dict[str, Callable[[], nn.Module]] = {"rebuilt": rebuilt, "images": images}
    made |= {method: lambda method=method: folded(method) for method in METHODS}
    for name, make in made.items():
        for recompute in (False, True) if name not in METHODS else (False,):  # Small has no blocks
            with tempfile.TemporaryDirectory() as folder:
                train(make, Path(folder), gradient_checkpointing=recompute)
        print(name, flush=True)
