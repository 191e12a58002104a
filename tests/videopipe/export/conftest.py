"""Small checkpoints of every kind that can be exported."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.inflation.operation import inflate_checkpoint
from videopipe.inflation.options import InflationOptions

LABELS = ("läuft", "steht", "springt")


@pytest.fixture
def folded(tmp_path: Path) -> Callable[..., Path]:
    """`folded(method, architecture)`: the checkpoint of a small timm network inflated by folding.

    Weights that start at zero are drawn, so that what mixes time changes the logits.
    """

    def make(method: str, architecture: str = "timm/test_resnet") -> Path:
        torch.manual_seed(0)
        options = {"num_classes": len(LABELS)}
        card = ModelCard(
            architecture=architecture,
            options=options,
            labels=LABELS,
            preprocessing=Preprocessing(image_size=32, resize=36),
        )
        if architecture.endswith("vit"):
            card.options["img_size"] = options["img_size"] = 32
        network = build(architecture, **options)
        draw(network)
        save_checkpoint(tmp_path / "2d", network, card)
        out = tmp_path / method
        inflate_checkpoint(tmp_path / "2d", out, InflationOptions(method=method, num_frames=4))
        from videopipe.models import load_model

        video, card = load_model(out)
        draw(video)
        save_checkpoint(out, video, card)
        return out

    return make


@torch.no_grad()
def draw(network: nn.Module) -> None:
    """Small random values in place of zeros: heads, last layers of adapters and of blocks."""
    for parameter in network.parameters():
        if float(parameter.abs().max()) == 0:
            parameter.normal_(std=0.1)
