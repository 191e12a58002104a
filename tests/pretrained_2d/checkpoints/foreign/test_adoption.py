import importlib.util
import json
from pathlib import Path

import pytest
import torch
import torchvision

from pretrained_2d import CheckpointError, build, load_checkpoint
from pretrained_2d.checkpoints.foreign import Adoption, adopt
from pretrained_2d.checkpoints.foreign.labels import read_labels

TESTS = Path(__file__).parents[1]


def saved(path: Path, architecture: str, **options) -> Path:
    torch.save(build(architecture, **options).network.state_dict(), path)
    return path


def test_what_the_file_does_not_say_is_default_or_given(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", "timm/test_resnet", num_classes=3)
    request = Adoption(
        checkpoint=file,
        architecture="timm/test_resnet",
        labels=("a", "b", "c"),
        mean=(0.1, 0.2, 0.3),
        image_size=96,
        crop=0.8,
    )
    card, _ = adopt(request, tmp_path / "model")
    assert card.labels == ("a", "b", "c")
    assert (card.preprocessing.image_size, card.preprocessing.resize) == (96, 120)
    assert card.preprocessing.mean == (0.1, 0.2, 0.3)
    assert card.preprocessing.std == (0.5, 0.5, 0.5)  # of timm's test networks
    network, again = load_checkpoint(tmp_path / "model")
    assert again == card
    original = torch.load(file)
    assert torch.equal(network.network.fc.weight, original["fc.weight"])
    report = json.loads((tmp_path / "model" / "adoption.json").read_text())
    assert report["matched"] == len(original)


def test_video_networks_bring_frames_and_seconds(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", "torchvision/mc3_18", num_classes=3)
    request = Adoption(checkpoint=file, architecture="torchvision/mc3_18")
    card, _ = adopt(request, tmp_path / "model")
    assert (card.ndim, card.num_frames) == (3, 16)
    assert card.clip_seconds == pytest.approx(16 / 15)
    assert (card.preprocessing.image_size, card.preprocessing.resize) == (112, 128)
    given = Adoption(
        checkpoint=file, architecture="torchvision/mc3_18", num_frames=8, clip_seconds=2.0
    )
    card, _ = adopt(given, tmp_path / "other")
    assert (card.num_frames, card.clip_seconds) == (8, 2.0)


def test_a_published_file_is_known_by_its_name(tmp_path: Path) -> None:
    published = torchvision.models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    name = published.url.rpartition("/")[2]
    file = saved(tmp_path / name, "torchvision/squeezenet1_1")
    request = Adoption(checkpoint=file, architecture="torchvision/squeezenet1_1")
    card, _ = adopt(request, tmp_path / "model")
    assert card.labels is not None
    assert card.labels[:2] == ("tench", "goldfish")


def test_a_size_is_given_to_networks_that_are_built_for_one(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", "timm/test_vit", image_size=96, num_classes=3)
    request = Adoption(checkpoint=file, architecture="timm/test_vit", image_size=96)
    card, report = adopt(request, tmp_path / "model")
    assert card.preprocessing.image_size == card.options["image_size"] == 96
    assert report.notes == ()
    network, _ = load_checkpoint(tmp_path / "model")
    assert network(torch.zeros(1, 3, 96, 96)).shape == (1, 3)


def test_networks_that_rescale_inside_get_values_in_minus_one_to_one() -> None:
    from pretrained_2d.checkpoints.foreign.preprocessing import default_inputs

    default = default_inputs("torchvision/googlenet", torch.nn.Identity(), "")
    assert default.preprocessing.mean == default.preprocessing.std == (0.5, 0.5, 0.5)


def test_a_file_at_the_output_path_is_an_error(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", "timm/test_resnet", num_classes=3)
    (tmp_path / "model").write_text("")
    with pytest.raises(CheckpointError, match="is a file; name a folder"):
        adopt(Adoption(checkpoint=file, architecture="timm/test_resnet"), tmp_path / "model")


def _public_code():
    path = TESTS / "reference" / "public_code.py"
    spec = importlib.util.spec_from_file_location("public_code", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("architecture", "kind", "size"),
    [
        ("convnext_micro", "s4nd+stem+downsample", (32, 32)),
        ("convnext_tiny", "factored", (6, 32, 32)),
        ("isotropic", "s4nd", (16, 16)),
        ("vit_base", "", (16, 16)),
    ],
)
def test_networks_of_the_public_code_are_adopted_like_others(
    architecture: str, kind: str, size: tuple[int, ...], tmp_path: Path
) -> None:
    public = _public_code()
    make = {
        "convnext": lambda: public.convnext(kind, size),
        "isotropic": lambda: public.isotropic(kind, size),
        "vit": lambda: public.vit(16),
    }
    state = make[architecture.partition("_")[0]]()
    torch.save({"state_dict": state, "epoch": 9}, tmp_path / "w.ckpt")
    request = Adoption(
        checkpoint=tmp_path / "w.ckpt",
        architecture=architecture,
        image_size=size[-1],
        num_frames=size[0] if len(size) == 3 else None,
    )
    card, report = adopt(request, tmp_path / "model")
    assert report.convention == "the names of the public S4ND code"
    assert card.ndim == len(size)
    network, _ = load_checkpoint(tmp_path / "model")
    signal = torch.randn(1, 3, *size)
    runs = {
        "convnext": lambda: public.run_convnext(state, signal, size),
        "isotropic": lambda: public.run_isotropic(state, signal, size, kind),
        "vit": lambda: public.run_vit(state, signal, 16),
    }
    with torch.inference_mode():
        expected = runs[architecture.partition("_")[0]]()
        torch.testing.assert_close(network(signal), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": (123.0, 117.0, 104.0)}, r"mean is .*divide by 255"),
        ({"std": (0.0, 0.1, 0.1)}, "deviation cannot be 0"),
        ({"mean": (0.5,)}, "one number for each of the 3 channels"),
        ({"crop": 87.5}, "give the fraction"),
        ({"image_size": 0}, "image_size is 0"),
        ({"labels": ("a", "b")}, "distinguishes 3 classes, but 2 are asked for"),
        ({"num_frames": 8}, "is a network of images"),
        ({"architecture": "timm/test_resnett"}, "did you mean 'test_resnet'"),
        ({"entry": "ema"}, "no entry 'ema'"),
    ],
)
def test_bad_requests_write_nothing(changes, message: str, tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", "timm/test_resnet", num_classes=3)
    request = {"checkpoint": file, "architecture": "timm/test_resnet", **changes}
    with pytest.raises(ValueError, match=message):
        adopt(Adoption(**request), tmp_path / "model")
    assert not (tmp_path / "model").exists()


LABELS = {
    "a list": ("walk, run,jump", None),
    "lines": ("l.txt", "walk\nrun\njump\n\n"),
    "json list": ("l.json", '["walk", "run", "jump"]'),
    "json by number": ("l.json", '{"2": "jump", "0": ["n01", "walk"], "1": "run"}'),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_in_every_form(kind: str, tmp_path: Path) -> None:
    given, text = LABELS[kind]
    if text is not None:
        given = str(tmp_path / given)
        Path(given).write_text(text)
    assert read_labels(given) == ("walk", "run", "jump")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("walk\nwalk\n", "'walk' occurs twice"),
        ("walk\n\nrun\n", "one name is empty"),
    ],
)
def test_labels_must_be_distinct(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_labels(str(tmp_path / "l.txt"))


def test_labels_that_cannot_be_read() -> None:
    with pytest.raises(CheckpointError, match="neither a file nor a list"):
        read_labels("no_such_file.txt")
