"""One way to load every checkpoint: 2D, rebuilt in 3D, folded."""

from pathlib import Path

import pytest
import torch

from pretrained_2d.errors import CheckpointError
from videopipe.inflation import InflationOptions, inflate_checkpoint
from videopipe.models import load_model


def test_images(isotropic_backbone: Path) -> None:
    network, card = load_model(isotropic_backbone)
    assert card.ndim == 2
    assert not network.training
    assert network(torch.randn(2, 3, 16, 16)).shape == (2, 3)


@pytest.mark.parametrize(("method", "folded"), [("s4nd", False), ("s3d", True)])
def test_clips_are_the_same_in_a_second_reading(
    isotropic_backbone: Path, tmp_path: Path, method: str, folded: bool
) -> None:
    inflate_checkpoint(
        isotropic_backbone, tmp_path / "3d", InflationOptions(method=method, num_frames=4)
    )
    clip = torch.randn(2, 3, 4, 16, 16)
    (first, card), (second, _) = load_model(tmp_path / "3d"), load_model(tmp_path / "3d")
    assert (card.inflation is not None) == folded
    assert card.ndim == 3
    with torch.no_grad():
        assert torch.equal(first(clip), second(clip))
        assert first(clip).shape == (2, 3)
        assert first.embed(clip).shape == (2, 8)
        torch.testing.assert_close(first.head(first.embed(clip)), first(clip))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        load_model(tmp_path / "nowhere")
