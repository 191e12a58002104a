"""Real weights and pictures: an ImageNet network gives a still video the logits of its picture."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.networks.backbones import build
from videopipe.inflation import InflationOptions, inflate_checkpoint
from videopipe.inflation.rebuild import rebuild
from videopipe.models import load_model

FRAMES = 4


@pytest.fixture(scope="module")
def lite0(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = shared / "data" / "weights" / "efficientnet-lite0-57934424.pth"
    if not weights.is_file():
        pytest.skip(f"there is no {weights}; to run this test: put the weights there")
    folder = tmp_path_factory.mktemp("real") / "lite0"
    half = (0.5, 0.5, 0.5)
    adopt(
        Adoption(
            checkpoint=weights, architecture="timm/tf_efficientnet_lite0", mean=half, std=half
        ),
        folder,
    )
    return folder


def pictures(shared: Path, count: int) -> tuple[list[Tensor], list[int]]:
    paths = sorted((shared / "data" / "images" / "imagenet").glob("*.JPEG"))
    if not paths:
        pytest.skip("no pictures; to run this test: put JPEG files into data/images/imagenet")
    chosen = paths[:: len(paths) // count][:count]
    images = [transforms.pil_to_tensor(Image.open(path).convert("RGB")) for path in chosen]
    return images, [int(path.name.split("_")[0]) for path in chosen]


@pytest.mark.parametrize(
    "method",
    ["s4nd", *(pytest.param(name, marks=pytest.mark.slow) for name in ("i3d", "s3d", "center"))],
)
def test_imagenet_network_classifies_stills_as_before(
    lite0: Path, shared: Path, tmp_path: Path, method: str
) -> None:
    options = InflationOptions(method=method, num_frames=FRAMES, temporal_patch=2)
    report = inflate_checkpoint(lite0, tmp_path / "video", options)
    assert report.proof.exact
    flat, card = load_model(lite0)
    video, _ = load_model(tmp_path / "video")
    images, classes = pictures(shared, 4)
    right = 0
    with torch.no_grad():
        for image, label in zip(images, classes, strict=True):
            frame = card.preprocessing.normalize(card.preprocessing.resize_and_crop(image)[None])
            expected = flat(frame)
            actual = video(frame[:, :, None].expand(-1, -1, FRAMES, -1, -1))
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
            assert actual.argmax() == expected.argmax()
            right += int(actual.argmax()) == label
    assert right >= 3  # 88.6 % on many pictures


@pytest.mark.slow
def test_inflated_inception_takes_the_public_i3d_weights(shared: Path, tmp_path: Path) -> None:
    weights = shared / "data" / "weights" / "i3d_kinetics400.safetensors"
    if not weights.is_file():
        pytest.skip(f"there is no {weights}; to run this test: put the weights there")
    adopt(Adoption(checkpoint=weights, architecture="inception_i3d"), tmp_path / "public")
    public, _ = load_model(tmp_path / "public")
    card = ModelCard(architecture="inception", options={"num_classes": 400})
    options = InflationOptions(method="i3d", padding="zeros", num_frames=16)
    video = rebuild(build("inception", num_classes=400), card, options).network
    video.load_state_dict(public.state_dict())
    clip = torch.rand(1, 3, 16, 64, 64) * 2 - 1
    with torch.no_grad():
        assert torch.equal(video(clip), public(clip))
