"""Networks without a classifying layer, and networks that return several feature maps."""

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.errors import PretrainedError
from pretrained_2d.networks.backbones import build
from videopipe.inflation import InflationOptions, inflate, inflate_checkpoint
from videopipe.inflation.options import InflationError
from videopipe.models import load_model

PIXELS, FRAMES = 64, 4
SMALL: dict[str, Any] = {"num_frames": FRAMES, "image_size": PIXELS, "state": 8}
VIT = {"img_size": PIXELS}
ENCODERS = {
    "test_vit": VIT,
    "test_convnext": {},
    "test_resnet": {},
    "test_efficientnet": {},
}
METHODS = ("s4nd", "i3d", "s3d", "center", "shift", "adapter", "attention", "none")


def still(images: Tensor) -> Tensor:
    return images[:, :, None].expand(-1, -1, FRAMES, -1, -1)


def encoder(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=0, **ENCODERS[name], **options).eval()


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("method", METHODS)
def test_still_video_gives_2d_features(name: str, method: str) -> None:
    images = torch.randn(2, 3, PIXELS, PIXELS)
    video = inflate(encoder(name), method=method, **SMALL).eval()
    with torch.no_grad():
        expected = encoder(name)(images)
        assert video.head_name is None
        torch.testing.assert_close(video(still(images)), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(video.embed(still(images)), expected, rtol=1e-4, atol=1e-5)
    assert expected.shape == (2, video.network.num_features)


@pytest.mark.parametrize("name", ENCODERS)
def test_classes_give_an_encoder_a_head_on_its_pooled_features(name: str) -> None:
    video = inflate(encoder(name), num_classes=5, **SMALL).eval()
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    with torch.no_grad():
        assert video(clip).shape == (2, 5)
        features = video.embed(clip)
        torch.testing.assert_close(video.head(features), video(clip), rtol=1e-4, atol=1e-5)
    assert features.shape == (2, video.network.head_hidden_size)


@pytest.mark.parametrize("name", ENCODERS)
def test_embedding_of_a_plain_timm_classifier_is_one_vector(name: str) -> None:
    network = timm.create_model(name, num_classes=7, **ENCODERS[name]).eval()
    video = inflate(network, **SMALL).eval()
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    with torch.no_grad():
        features = video.embed(clip)
        torch.testing.assert_close(video.head(features), video(clip), rtol=1e-4, atol=1e-5)
    assert features.shape == (2, network.head_hidden_size)


class Pooled(nn.Module):
    """An encoder of no library: the last convolution has as many outputs as the network."""

    def __init__(self, pool: bool = True) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.last = nn.Conv2d(8, 16, 1)
        self.norm = nn.BatchNorm2d(16)
        self.pool = pool

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.last(self.stem(images).relu())).relu()
        return maps.mean((2, 3)) if self.pool else maps


def test_a_convolution_of_an_unknown_encoder_is_not_its_head() -> None:
    video = inflate(Pooled(), **SMALL).eval()
    clip = torch.randn(2, 3, FRAMES, PIXELS, PIXELS)
    assert video.head_name is None
    assert torch.equal(video.embed(clip), video(clip))
    assert video.embed(clip).shape == (2, 16)
    with_head = inflate(Pooled(), num_classes=5, **SMALL).eval()
    assert with_head(clip).shape == (2, 5)
    assert with_head.head.in_features == 16


def test_a_layer_that_gives_the_output_is_the_head_unless_the_user_says_otherwise() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 6)]
    assert inflate(nn.Sequential(*layers), **SMALL).head_name == "3"
    video = inflate(nn.Sequential(*layers), head="", num_classes=5, **SMALL)
    assert video.head_name is None
    assert video.head.in_features == 6
    with pytest.raises(InflationError, match="head='last' is not a linear layer or 1×1"):
        inflate(nn.Sequential(nn.Conv2d(3, 4, 3)), head="last", **SMALL)


def test_unpooled_features_name_what_decides() -> None:
    clip = torch.randn(1, 3, FRAMES, PIXELS, PIXELS)
    with pytest.raises(PretrainedError, match="the option global_pool decides"):
        inflate(encoder("test_resnet", global_pool=""), **SMALL).embed(clip)
    with pytest.raises(PretrainedError, match="wrap it in a module that pools"):
        inflate(Pooled(pool=False), num_classes=5, **SMALL)


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v3_small", "resnet18"])
def test_torchvision_names_its_classifier(name: str) -> None:
    network = torchvision.models.get_model(name, weights=None, num_classes=7).eval()
    video = inflate(network, num_classes=5, **SMALL).eval()
    assert video(torch.randn(1, 3, FRAMES, PIXELS, PIXELS)).shape == (1, 5)


def test_torchvision_without_its_last_layer_is_an_encoder() -> None:
    network = torchvision.models.resnet18(weights=None)
    network.fc = nn.Identity()
    video = inflate(network.eval(), **SMALL).eval()
    assert video.head_name is None
    assert video.embed(torch.randn(1, 3, FRAMES, PIXELS, PIXELS)).shape == (1, 512)


def test_encoder_folder_to_folder_and_head(tmp_path: Path) -> None:
    options = {"num_classes": 0, "image_size": PIXELS}
    card = ModelCard(
        architecture="timm/test_vit",
        options=options,
        preprocessing=Preprocessing(image_size=PIXELS, resize=PIXELS),
    )
    save_checkpoint(tmp_path / "2d", build(card.architecture, **options), card)
    choices = InflationOptions(num_frames=FRAMES, state=8)
    report = inflate_checkpoint(tmp_path / "2d", tmp_path / "video", choices)
    assert report.proof.exact
    assert "2D features" in str(report.proof)
    images = torch.randn(1, 3, PIXELS, PIXELS)
    video = load_model(tmp_path / "video")[0]
    with torch.no_grad():
        expected = load_model(tmp_path / "2d")[0].embed(images)
        torch.testing.assert_close(video.embed(still(images)), expected, rtol=1e-4, atol=1e-5)
    inflate_checkpoint(tmp_path / "2d", tmp_path / "classifier", choices, num_classes=5)
    assert load_model(tmp_path / "classifier")[0](still(images)).shape == (1, 5)


NARROW = {"depth": 2, "embed_dim": 24, "num_heads": 2}


@pytest.mark.parametrize(
    ("name", "trained", "pixels"),
    [
        ("vit_small_patch14_dinov2", 70, 28),  # the position table is resampled
        ("vit_base_patch16_clip_224", 32, 32),
        ("vit_base_patch16_siglip_224", 32, 32),  # attention pooling
        ("vit_small_patch16_dinov3", 32, 48),  # rotary positions have no table
    ],
)
def test_published_encoders_from_file_to_classes(
    name: str, trained: int, pixels: int, tmp_path: Path
) -> None:
    network = timm.create_model(name, num_classes=0, img_size=trained, **NARROW).eval()
    torch.save(
        {"model": {f"visual.{n}": t for n, t in network.state_dict().items()}}, tmp_path / "w"
    )
    request = Adoption(
        checkpoint=tmp_path / "w", architecture=f"timm/{name}", image_size=pixels, options=NARROW
    )
    adopt(request, tmp_path / "2d")
    choices = InflationOptions(num_frames=FRAMES, state=8)
    report = inflate_checkpoint(tmp_path / "2d", tmp_path / "video", choices)
    assert report.proof.exact
    images = torch.randn(2, 3, pixels, pixels)
    video = load_model(tmp_path / "video")[0]
    with torch.no_grad():
        network.set_input_size(img_size=pixels)  # timm's own resampling
        expected = network(images)
        torch.testing.assert_close(video.embed(still(images)), expected, rtol=1e-4, atol=1e-5)
    inflate_checkpoint(tmp_path / "2d", tmp_path / "classifier", choices, labels=("a", "b"))
    classifier, card = load_model(tmp_path / "classifier")
    assert card.labels == ("a", "b")
    with torch.no_grad():
        torch.testing.assert_close(classifier.embed(still(images)), expected, rtol=1e-4, atol=1e-5)
        assert classifier(still(images)).shape == (2, 2)
