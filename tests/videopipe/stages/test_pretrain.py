import json

import pytest
import torch
from PIL import Image
from torch.nn.modules.module import register_module_forward_pre_hook
from torchvision.transforms import v2

from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.augmentation import ImageAugmentation
from pretrained_2d.networks.isotropic import Isotropic
from pretrained_2d.pretrain_config import PhaseConfig, PretrainConfig
from pretrained_2d.training.recipe import Recipe
from s4nd import S4ND
from videopipe.errors import DataError
from videopipe.pipeline.stage import Inputs, Result
from videopipe.stages.pretrain import run

COLOURS = {"blue": (30, 60, 200), "green": (40, 180, 60), "red": (200, 40, 50)}


@pytest.fixture
def images(tmp_path):
    """Three colours with a little noise; no val split, a test split."""
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 20), ("test", 4)):
        for label, colour in COLOURS.items():
            folder = tmp_path / "images" / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                shift = torch.randint(-25, 25, (3,), generator=generator).tolist()
                shade = tuple(c + s for c, s in zip(colour, shift, strict=True))
                Image.new("RGB", (16, 16), shade).save(folder / f"{number}.png")
    return tmp_path / "images"


def config(images=None, **changes):
    settings = {
        "architecture": "isotropic",
        "options": {"depth": 1, "width": 8, "axis": {"state": 4, "bandlimit": 0.5}},
        "data": images,
        "image_size": 16,
        "test_sizes": (8,),
        "recipe": Recipe(epochs=6, batch_size=6, lr=0.03, workers=0),
    }
    return PretrainConfig(**{**settings, **changes})


def test_it_trains_at_one_size_and_tests_at_others(images, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    summary = run(config(images, train_size=8), Inputs({}), out)
    assert summary["best"]["accuracy@8"] > 0.8
    assert summary["images"] == {"train": 54, "val": 6, "test": 12}
    assert set(summary["test"]) == {"accuracy@8", "accuracy@16"}
    network, card = load_checkpoint(out)
    assert card.labels == ("blue", "green", "red")
    assert card.options["axis"] == {
        "state": 4, "bandlimit": 0.5, "basis": "legs", "dt_min": 0.1, "dt_max": 1.0,
    }  # fmt: skip
    assert card.preprocessing.image_size == 16
    assert network(torch.zeros(1, 3, 8, 8), 2.0).shape == (1, 3)
    for size in (8, 16):
        _, best = load_checkpoint(out / "best" / f"accuracy@{size}")
        reached = best.provenance["metrics"][f"accuracy@{size}"]
        assert reached == pytest.approx(summary["best"][f"accuracy@{size}"], abs=1e-4)
    assert "layout" in json.loads((out / "images.json").read_text())


def calls_of_the_network():
    """Every forward pass meanwhile: (is training, image size, rate, bandlimit)."""
    seen = []

    def record(module, inputs):
        if isinstance(module, Isotropic):
            limits = {m.bandlimit for m in module.modules() if isinstance(m, S4ND)}
            rate = inputs[1] if len(inputs) > 1 else 1.0
            seen.append((module.training, inputs[0].shape[-1], rate, *limits))

    return seen, register_module_forward_pre_hook(record)


def test_phases_set_size_rate_and_bandlimit(images, tmp_path):
    phases = (PhaseConfig(epochs=2, size=8, bandlimit=0.2), PhaseConfig(epochs=1))
    out = tmp_path / "out"
    out.mkdir()
    recipe = Recipe(epochs=3, batch_size=6, lr=0.03, ema_decay=0.9, workers=0)
    settings = config(images, phases=phases, options={"depth": 1, "width": 8}, recipe=recipe)
    seen, hook = calls_of_the_network()
    with hook:
        summary = run(settings, Inputs({}), out)
    assert summary["steps"] == 3 * 9
    limited, free = (0.2, 0.2), (None, None)
    training = [call for call in seen if call[0]]
    assert training == [(True, 8, 2.0, limited)] * 18 + [(True, 16, 1.0, free)] * 9
    evaluation = [call for call in seen if not call[0]]
    first = [(False, 8, 2.0, limited), (False, 16, 1.0, limited)]
    last = [(False, 8, 2.0, free), (False, 16, 1.0, free)]
    assert evaluation[:6] == first * 2 + last
    network, card = load_checkpoint(out / "last")
    assert card.options["axis"]["bandlimit"] is None
    assert all(m.bandlimit == free for m in network.modules() if isinstance(m, S4ND))
    _, card = load_checkpoint(out / "best/accuracy@8")
    limit = card.options["axis"]["bandlimit"]
    assert limit == (0.2 if summary["best_epoch"]["accuracy@8"] <= 2 else None)


def test_at_a_larger_size_more_pixels_are_read_and_none_are_enlarged(tmp_path):
    expected = []
    for split, count in (("train", 4), ("test", 1)):
        for label in ("a", "b"):
            folder = tmp_path / "images" / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = torch.randint(0, 256, (3, 48, 40), dtype=torch.uint8)
                Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / f"{number}.png")
                scaled = v2.functional.resize(pixels, [24], antialias=True)  # 12 at the base size
                expected.append(v2.functional.center_crop(scaled, [16]))
    out = tmp_path / "out"
    out.mkdir()
    recipe = Recipe(epochs=1, batch_size=2, workers=0)
    changes = {"image_size": 8, "resize": 12, "test_sizes": (16,), "recipe": recipe}
    half = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "validation_share": 0.25}
    seen = []

    def record(module, inputs):
        if isinstance(module, Isotropic) and inputs[0].shape[-1] == 16:
            assert inputs[1] == 0.5
            seen.extend((inputs[0] + 1) * 127.5)

    with register_module_forward_pre_hook(record):
        run(config(tmp_path / "images", **changes, **half), Inputs({}), out)
    assert len(seen) == 2 + 2  # of validation and of test
    for image in seen:
        assert min((image - one).abs().max() for one in expected) < 1e-3


def test_the_test_accuracy_at_a_size_is_that_of_the_best_network_there(
    images, tmp_path, monkeypatch
):
    """After the first epoch validation is best at 16 pixels, after the second at 8."""
    out, weights = tmp_path / "out", []
    out.mkdir()
    validation = iter([{"accuracy@8": 0.1, "accuracy@16": 0.9}, {"accuracy@8": 0.8}])

    def evaluate(network, sizes=None):
        weight = float(network.head.weight.detach().double().square().sum())
        if sizes is not None:
            return {f"accuracy@{size}": weight for size in sizes}
        weights.append(weight)
        metrics = {"accuracy@16": 0.5} | next(validation)
        return {"accuracy": metrics["accuracy@16"], **metrics}

    monkeypatch.setattr("pretrained_2d.pretraining._evaluation", lambda *_: evaluate)
    recipe = Recipe(epochs=2, batch_size=6, lr=0.03, workers=0)
    summary = run(config(images, recipe=recipe), Inputs({}), out)
    assert weights[0] != weights[1]
    assert summary["test"] == {"accuracy@16": weights[0], "accuracy@8": weights[1]}
    assert summary["best_epoch"] == {"accuracy": 1, "accuracy@16": 1, "accuracy@8": 2}


def test_generated_data_is_taken_from_its_images(images, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    inputs = Inputs({"data": [Result(images.parent, "data")]})
    settings = config(recipe=Recipe(epochs=1, batch_size=6, workers=0), max_images=12)
    summary = run(settings, inputs, out)
    assert summary["images"]["train"] == 12


def test_broken_images_stop_the_run_or_are_left_out(images, tmp_path):
    (images / "train/red/3.png").write_bytes(b"no image")
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ImageDataError, match=r"train/red/3\.png|red/3\.png"):
        run(config(images), Inputs({}), out)
    few = Recipe(epochs=1, batch_size=6, workers=0)
    summary = run(config(images, max_broken=1, recipe=few), Inputs({}), out)
    assert sum(summary["images"].values()) == 60 + 12 - 1


def test_augmentation_and_mixing_run_together(images, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    augmentation = ImageAugmentation(crop="random_resized", rand_augment="rand-m9-n2", erase=0.25)
    recipe = Recipe(epochs=1, batch_size=6, mixup=0.8, cutmix=1.0, repeats=3, workers=0)
    summary = run(config(images, augmentation=augmentation, recipe=recipe), Inputs({}), out)
    assert summary["steps"] == 9


def test_a_run_without_images_says_how_to_give_them(tmp_path):
    with pytest.raises(DataError, match=r"set data: FOLDER, or give the input `data`"):
        run(config(), Inputs({}), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"large_data": "/x"}, "data and large_data are both given"),
        ({"data": None, "large_data": "/x"}, "data_version is missing"),
        ({"train_size": 8, "phases": (PhaseConfig(epochs=1),)}, "train_size and phases"),
        ({"validation_share": 1.0}, "validation_share is 1.0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **changes)
