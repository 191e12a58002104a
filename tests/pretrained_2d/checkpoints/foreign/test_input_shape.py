"""Checkpoints for images of other than three channels."""

from pathlib import Path

import pytest
import torch

from pretrained_2d import CheckpointError, build, load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt


@pytest.mark.parametrize("architecture", ["timm/test_resnet", "timm/test_convnext"])
@pytest.mark.parametrize("channels", [1, 5])
def test_the_file_says_how_many_channels_it_is_for(architecture, channels, tmp_path: Path) -> None:
    theirs = build(architecture, num_classes=4, in_chans=channels).eval()
    torch.save(theirs.network.state_dict(), tmp_path / "w.pth")
    request = Adoption(checkpoint=tmp_path / "w.pth", architecture=architecture, head="drop")
    card, report = adopt(request, tmp_path / "model")
    assert card.options["in_chans"] == channels
    mean, std = card.preprocessing.mean, card.preprocessing.std
    assert (len(mean), len(std)) == (channels, channels)
    ours, _ = load_checkpoint(tmp_path / "model")
    images = torch.randn(2, channels, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours.embed(images), theirs.embed(images))
    assert report.new == ()


def test_colour_weights_for_grey_images(tmp_path: Path) -> None:
    theirs = build("timm/test_resnet", num_classes=4).eval()
    torch.save(theirs.network.state_dict(), tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth",
        architecture="timm/test_resnet",
        options={"in_chans": 1},
        mean=(0.4,),
        std=(0.2,),
    )
    card, report = adopt(request, tmp_path / "model")
    assert (card.preprocessing.mean, card.preprocessing.std) == ((0.4,), (0.2,))
    assert any("3 input channels made 1" in note for note in report.notes)
    ours, _ = load_checkpoint(tmp_path / "model")
    grey = torch.randn(2, 1, 64, 64)
    with torch.inference_mode():  # a grey image is a colour image with three equal channels
        expected = theirs(grey.expand(-1, 3, -1, -1))
        torch.testing.assert_close(ours(grey), expected, rtol=1e-4, atol=1e-5)


def test_only_colour_weights_are_converted(tmp_path: Path) -> None:
    theirs = build("timm/test_resnet", num_classes=4, in_chans=1)
    torch.save(theirs.network.state_dict(), tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture="timm/test_resnet", options={"in_chans": 3}
    )
    with pytest.raises(CheckpointError, match=r"takes 1 channels, but 3 .* leave the option in_ch"):
        adopt(request, tmp_path / "model")


def test_mean_and_deviation_need_one_number_per_channel(tmp_path: Path) -> None:
    theirs = build("timm/test_resnet", num_classes=4, in_chans=1)
    torch.save(theirs.network.state_dict(), tmp_path / "w.pth")
    request = Adoption(
        checkpoint=tmp_path / "w.pth", architecture="timm/test_resnet", std=(0.2, 0.2, 0.2)
    )
    with pytest.raises(CheckpointError, match=r"std is .* one number for each of the 1 channels"):
        adopt(request, tmp_path / "model")
    assert not (tmp_path / "model").exists()
