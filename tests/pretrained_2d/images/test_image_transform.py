import pickle

import pytest
import torch

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.images.augmentation import ImageAugmentation
from pretrained_2d.images.dataset import TrainImages
from pretrained_2d.images.image_transform import ImageTransform
from pretrained_2d.randomness import Sample

PREPROCESSING = Preprocessing(image_size=16, resize=20)
PAPER = ImageAugmentation(
    crop="random_resized", flip=0.5, rand_augment="rand-m9-mstd0.5-inc1-n2", erase=0.25
)


class Noise:
    def __len__(self):
        return 4

    def read(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, 256, (3, 24, 30), dtype=torch.uint8, generator=generator)

    def target(self, index):
        return torch.tensor(index)


def images(augmentation):
    return TrainImages(Noise(), ImageTransform(augmentation, PREPROCESSING), seed=1)


@pytest.mark.parametrize(
    "augmentation",
    [
        PAPER,
        ImageAugmentation(crop="pad", flip=0.5),
        ImageAugmentation(augmix="augmix-m3-w3"),
        ImageAugmentation(erase=1.0),
        ImageAugmentation(),
    ],
)
def test_a_drawing_depends_on_epoch_item_and_repeat_only(augmentation):
    data = images(augmentation)
    torch.manual_seed(5)
    first = data[Sample(2, 3, 1)][0]
    torch.manual_seed(6)
    copied = pickle.loads(pickle.dumps(data))
    assert torch.equal(copied[Sample(2, 3, 1)][0], first)
    assert first.shape == (3, 16, 16)
    assert first.dtype == (torch.float32 if augmentation.erase else torch.uint8)
    others = [data[Sample(2, epoch, repeat)][0] for epoch in range(4) for repeat in range(2)]
    differ = any(not torch.equal(other, first) for other in others)
    assert differ == augmentation.is_random


def test_drawing_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    images(PAPER)[Sample(0, 0, 0)]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_augmentation_training_sees_what_tests_see():
    pixels = Noise().read(0)
    assert torch.equal(images(ImageAugmentation())[0][0], PREPROCESSING.resize_and_crop(pixels))


def test_erasing_fills_a_box_with_noise_of_the_normalised_scale():
    plain = PREPROCESSING.normalize(images(ImageAugmentation())[Sample(1)][0][None])[0]
    erased = images(ImageAugmentation(erase=1.0))[Sample(1)][0]
    changed = (erased != plain).any(dim=0)
    assert 0 < changed.sum() < changed.numel()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip": 1.5}, "flip is 1.5, expected a probability"),
        ({"rand_augment": "m9"}, "rand_augment is 'm9', expected timm's notation: rand-"),
    ],
)
def test_bad_values_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageAugmentation(**settings)
