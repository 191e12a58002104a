import pytest
import torch
from torch import nn
from torchvision.transforms import v2

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.images.dataset import ResizeAndNormalize, TestImages
from pretrained_2d.images.evaluation import ImageEvaluation

PREPROCESSING = Preprocessing(image_size=16, resize=16)


class Squares:
    """Ten images: the odd ones are bright."""

    def __len__(self):
        return 10

    def read(self, index):
        return torch.full((3, 16, 16), 200 * (index % 2), dtype=torch.uint8)

    def target(self, index):
        return torch.tensor(index % 2)


class RecordingNetwork(nn.Module):
    """Classifies correctly at one rate only, and records its inputs."""

    def __init__(self, right=1):
        super().__init__()
        self.right = right
        self.weight = nn.Parameter(torch.ones(1))
        self.shown = []

    def forward(self, signal, rate=1.0):
        self.shown.append((tuple(signal.shape), rate))
        bright = signal.mean(dim=(1, 2, 3)) > 0
        if rate != self.right:
            bright = ~bright
        return nn.functional.one_hot(bright.long(), 2).float() * 10


def evaluation(sizes, batch_size=4):
    return ImageEvaluation(
        TestImages(Squares(), PREPROCESSING.resize_and_crop),
        sizes=sizes,
        preprocessing=PREPROCESSING,
        objective="cross_entropy",
        batch_size=batch_size,
        workers=0,
    )


def test_every_size_gets_its_rate_and_every_image_counts_once():
    network = RecordingNetwork()
    metrics = evaluation((4, 8, 16))(network)
    assert metrics["accuracy"] == metrics["accuracy@16"] == 1.0
    assert metrics["accuracy@8"] == metrics["accuracy@4"] == 0.0
    assert metrics["images"] == 10
    shown = {
        rate: [shape[0] for shape, r in network.shown if r == rate] for rate in (1.0, 2.0, 4.0)
    }
    assert all(sum(counts) == 10 for counts in shown.values())
    assert {(shape[-1], rate) for shape, rate in network.shown} == {(4, 4.0), (8, 2.0), (16, 1.0)}


def test_the_size_of_batches_does_not_matter():
    network = RecordingNetwork()
    assert evaluation((8, 16), 3)(network) == pytest.approx(evaluation((8, 16), 10)(network))


def test_some_sizes_only():
    assert evaluation((4, 16))(RecordingNetwork(), [4]).keys() == {
        "accuracy", "loss", "images", "accuracy@4", "loss@4",
    }  # fmt: skip
    # Without the base size, names without a size belong to the largest.
    metrics = evaluation((4, 8))(RecordingNetwork(right=2))
    assert metrics["accuracy"] == metrics["accuracy@8"] == 1.0
    assert metrics["loss"] == metrics["loss@8"] < metrics["loss@4"]


def test_small_images_are_bilinear_and_antialiased():
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    small = ResizeAndNormalize(PREPROCESSING, 8)(images)
    expected = nn.functional.interpolate(
        PREPROCESSING.normalize(images), size=(8, 8), mode="bilinear", antialias=True
    )
    assert torch.allclose(small, expected, atol=1e-6)
    assert torch.equal(
        ResizeAndNormalize(PREPROCESSING, 16)(images), PREPROCESSING.normalize(images)
    )


def test_faces_are_cropped_before_they_are_resized():
    # Paper, appendix B.3: CenterCrop(178), then Resize(160), of 218 × 178 pixels.
    faces = torch.randint(0, 256, (2, 3, 218, 178), dtype=torch.uint8)
    ours = Preprocessing(image_size=160, resize=160, crop_first=178).resize_and_crop(faces)
    theirs = v2.Compose([v2.CenterCrop(178), v2.Resize(160, antialias=True)])(faces)
    assert torch.equal(ours, theirs)
