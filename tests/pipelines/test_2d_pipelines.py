"""Every 2D pipeline of the paper validates, and runs unchanged at a tiny scale."""

import itertools
from pathlib import Path

import pytest
from PIL import Image

from pretrained_2d.checkpoint import load_checkpoint
from videopipe.cli import main
from videopipe.pipeline import load_pipeline
from videopipe.runner import run_jobs
from videopipe.stages import STAGES

PIPELINES = Path(__file__).parents[2] / "pipelines"
NAMES = sorted(
    path.name
    for path in PIPELINES.glob("*.yaml")
    if path.name.startswith(("imagenet_", "cifar10_", "celeba_"))
)
HEAD = ("# Reproduces:", "# Run:", "# Hardware:", "# Time:", "# Expected:")


def test_all_nine_are_there():
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_it_validates_and_says_what_it_reproduces(name, capsys):
    assert main(["validate", "--without-data", str(PIPELINES / name)]) == 0
    text = (PIPELINES / name).read_text()
    assert [line for line in HEAD if line not in text] == []
    assert text.split("name: ")[1].split()[0] == Path(name).stem


def paint(path, colour, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagenet")
    for split, label, number in itertools.product(
        ("train", "val"), ("n01440764", "n02102040"), range(4)
    ):
        paint(folder / split / label / f"{number}.JPEG", (number * 50, 90, 60), (40, 36))
    return folder


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar10")
    for split, label, number in itertools.product(("train", "test"), ("cat", "dog"), range(6)):
        paint(folder / split / label / f"{number}.png", (number * 40, 90, 60), (32, 32))
    return folder


@pytest.fixture(scope="module")
def celeba(tmp_path_factory):
    folder = tmp_path_factory.mktemp("celeba")
    names = [f"{number:06d}.jpg" for number in range(12)]
    for number, name in enumerate(names):
        paint(folder / "img_align_celeba" / name, (number * 20, 90, 60), (178, 218))
    rows = [f"{name} {1 if number % 2 else -1} 1" for number, name in enumerate(names)]
    (folder / "list_attr_celeba.txt").write_text("\n".join(["12", "Bald Young", *rows]))
    partition = [f"{name} {number // 4}" for number, name in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(partition))
    return folder


TINY_RECIPE = {"recipe.batch_size": 4, "recipe.workers": 0, "recipe.warmup_steps": 1}
TINY_ISOTROPIC = {"options.depth": 1, "options.width": 4}
TINY_CONVNEXT = {"options.depths": "[1, 1, 1, 1]", "options.widths": "[4, 4, 4, 4]"}
TINY_VIT = {"options.depth": 1, "options.width": 8, "options.patch": 8}
IMAGENET = {
    "image_size": 32, "resize": 36, "recipe.epochs": 1, "recipe.batch_size": 8, "recipe.workers": 0,
}  # fmt: skip
CELEBA = {"image_size": 64, "options.stem_kernel": 64}
TWO_PHASES = "[{epochs: 1, size: %d, bandlimit: 0.1}, {epochs: 1, size: %d}]"

# What --set changes: by pipeline, then by stage.
TINY: dict[str, dict[str, dict[str, object]]] = {
    "imagenet_convnext.yaml": {"backbone": IMAGENET | TINY_CONVNEXT},
    "imagenet_s4nd_convnext.yaml": {"backbone": IMAGENET | TINY_CONVNEXT},
    "imagenet_vit.yaml": {"backbone": IMAGENET | TINY_VIT | {"options.heads": 2}},
    "imagenet_s4nd_vit.yaml": {"backbone": IMAGENET | TINY_VIT},
    "cifar10_zero_shot.yaml": {
        "s4nd": {
            "recipe.epochs": 1, "matrix.train_size": "[8]",
            "matrix.options.axis.bandlimit": "[0.1, null]",
        },
        "conv2d": {"recipe.epochs": 1, "matrix.train_size": "[8]"},
    },
    "cifar10_bandlimit.yaml": {
        "s4nd": {"recipe.epochs": 1, "matrix.options.axis.bandlimit": "[0.1]"},
    },
    "cifar10_progressive.yaml": {
        "s4nd": {"recipe.epochs": 1},
        "s4nd_progressive": {"phases": TWO_PHASES % (8, 32)},
        "conv2d": {"recipe.epochs": 1},
        "conv2d_progressive": {"phases": TWO_PHASES % (8, 32)},
    },
    "celeba_zero_shot.yaml": {
        "s4nd": {
            "recipe.epochs": 1, "test_sizes": "[32, 48]", "matrix.train_size": "[32]",
            "matrix.options.axis.bandlimit": "[0.1]",
        },
        "s4nd_base": {"recipe.epochs": 1, "test_sizes": "[32, 48]"},
        "conv2d": {"recipe.epochs": 1, "test_sizes": "[32, 48]", "matrix.train_size": "[32]"},
        "conv2d_base": {"recipe.epochs": 1, "test_sizes": "[32, 48]"},
    },
    "celeba_progressive.yaml": {
        "s4nd": {"recipe.epochs": 1},
        "s4nd_progressive": {"phases": TWO_PHASES % (32, 48), "test_sizes": "[32]"},
        "conv2d": {"recipe.epochs": 1},
        "conv2d_progressive": {"phases": TWO_PHASES % (32, 48), "test_sizes": "[32]"},
    },
}  # fmt: skip


def settings(name, stage, changes):
    """The changes of one stage, and what all tiny runs of its family share."""
    if name.startswith("cifar10_"):
        return TINY_RECIPE | TINY_ISOTROPIC | changes
    if name.startswith("celeba_"):
        convolution = {} if stage.startswith("s4nd") else {"options.stem_kernel": 16}
        return TINY_RECIPE | TINY_CONVNEXT | CELEBA | convolution | changes
    return changes


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_unchanged_at_a_tiny_scale(name, imagenet, cifar10, celeba, tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGENET", str(imagenet))
    monkeypatch.setenv("CIFAR10", str(cifar10))
    monkeypatch.setenv("CELEBA", str(celeba))
    changes = [
        f"{stage}.{key}={value}"
        for stage, tiny in TINY[name].items()
        for key, value in settings(name, stage, tiny).items()
    ]
    pipeline = load_pipeline(PIPELINES / name, STAGES, overrides=changes)
    outcomes = run_jobs(pipeline.jobs, tmp_path)
    assert {outcome.job.stage for outcome in outcomes} == set(TINY[name])
    for outcome in outcomes:
        network, card = load_checkpoint(outcome.folder)
        assert card.labels is not None
        assert network.head.out_features == len(card.labels)
        assert 0 <= outcome.summary["best"]["accuracy"] <= 1
