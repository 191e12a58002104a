import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.items import random_subset, split_off
from pretrained_2d.images.layouts import find_images


def paint(path, colour="red", size=(8, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def imagenet(tmp_path):
    for split, count in (("train", 3), ("val", 2)):
        for label in ("n01440764", "n01443537"):
            for number in range(count):
                paint(tmp_path / split / label / f"{number}.JPEG")
    return tmp_path


def test_imagenet(imagenet):
    (imagenet / "train/n01440764/notes.txt").write_text("not an image")
    listing = find_images(imagenet)
    assert listing.describe() == (
        "ImageNet: 2 classes, images: 6 train, 4 val; 1 other files ignored"
    )
    assert listing.splits["train"].target(5).item() == 1
    assert listing.splits["val"].name(0) == "n01440764/0.JPEG"


def test_class_folders(tmp_path):
    paint(tmp_path / "dog/a.png", "blue")
    paint(tmp_path / "cat/deep/b.jpg")
    paint(tmp_path / "cat/c.webp")
    listing = find_images(tmp_path)
    assert (listing.layout, listing.labels) == ("class folders", ("cat", "dog"))
    items = listing.splits["train"]
    assert [items.name(i) for i in range(3)] == ["cat/c.webp", "cat/deep/b.jpg", "dog/a.png"]
    assert items.read(2)[2].float().mean() == 255


def cifar_records(count, first=0):
    records = np.zeros((count, 3073), np.uint8)
    records[:, 0] = (np.arange(count) + first) % 10
    records[:, 1:] = (np.arange(count) + first)[:, None]
    return records


def test_cifar_binary_files(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(cifar_records(4).tobytes())
    (folder / "data_batch_2.bin").write_bytes(cifar_records(4, 4).tobytes())
    (folder / "test_batch.bin").write_bytes(cifar_records(3, 100).tobytes())
    listing = find_images(tmp_path)
    assert listing.describe() == "CIFAR-10 binary files: 10 classes, images: 8 train, 3 test"
    assert listing.labels[3] == "cat"
    items = listing.splits["train"]
    assert [items.target(i).item() for i in range(8)] == list(range(8))
    assert torch.equal(items.read(5), torch.full((3, 32, 32), 5, dtype=torch.uint8))
    copy = pickle.loads(pickle.dumps(items.select(np.array([7, 2]))))
    assert [copy.target(i).item() for i in range(2)] == [7, 2]
    assert len(pickle.dumps(items)) < 1000, "workers read the files themselves"


def test_cifar_cut_short_is_named(tmp_path):
    (tmp_path / "data_batch_1.bin").write_bytes(cifar_records(2).tobytes()[:-1])
    with pytest.raises(
        ImageDataError, match=r"data_batch_1\.bin has 6145 bytes.*download it again"
    ):
        find_images(tmp_path)


def test_real_cifar_records_are_read_as_channels_first(tmp_path):
    record = np.zeros(3073, np.uint8)
    record[1 + 1024 : 1 + 2048] = np.arange(1024) // 32  # green: the row number
    (tmp_path / "data_batch_1.bin").write_bytes(record.tobytes())
    pixels = find_images(tmp_path).splits["train"].read(0)
    assert pixels[1, :, 0].tolist() == list(range(32))
    assert pixels[0].sum() == pixels[2].sum() == 0


@pytest.mark.parametrize("style", ["txt", "csv"])
def test_celeba(tmp_path, style):
    names = [f"{number:06d}.jpg" for number in range(1, 5)]
    attributes = [[1, -1, 1], [-1, -1, -1], [1, 1, 1], [-1, 1, -1]]
    for name in names:
        paint(tmp_path / "img_align_celeba" / name, size=(178, 218))
    join = " ".join if style == "txt" else ",".join
    rows = [join([name, *map(str, values)]) for name, values in zip(names, attributes, strict=True)]
    labels = ["Bald", "Smiling", "Young"]
    header = ["4", " ".join(labels)] if style == "txt" else [",".join(["image_id", *labels])]
    (tmp_path / f"list_attr_celeba.{style}").write_text("\n".join([*header, *rows]))
    partition = [join([name, str(split)]) for name, split in zip(names, (0, 0, 1, 2), strict=True)]
    (tmp_path / f"list_eval_partition.{style}").write_text("\n".join(partition))

    listing = find_images(tmp_path)
    assert listing.describe() == "Celeb-A: 3 attributes, images: 2 train, 1 val, 1 test"
    assert listing.multilabel
    assert listing.labels == tuple(labels)
    assert listing.splits["train"].target(0).tolist() == [1, 0, 1]
    assert listing.splits["test"].target(0).tolist() == [0, 1, 0]
    assert listing.splits["val"].read(0).shape == (3, 218, 178)


def test_celeba_without_its_partition_is_an_error(tmp_path):
    (tmp_path / "list_attr_celeba.txt").write_text("0\nBald\n")
    with pytest.raises(ImageDataError, match=r"list_eval_partition\.txt is missing"):
        find_images(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "holds nothing; expected train/ and val/"),
        (lambda folder: paint(folder / "a.png"), r"holds a\.png; expected"),
        (lambda folder: paint(folder / "train/a.png"), "train has no class folders"),
        (
            lambda folder: (paint(folder / "train/cat/a.png"), paint(folder / "val/dog/a.png")),
            "val has classes that train does not have: dog",
        ),
        (
            lambda folder: (paint(folder / "train/cat/a.png"), paint(folder / "val/a.png")),
            "val has no class folders; sort its images into one folder per class",
        ),
    ],
)
def test_other_folders_are_refused_with_what_is_expected(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(ImageDataError, match=message):
        find_images(tmp_path)


def test_splits_are_disjoint_whole_and_the_same_every_time(imagenet):
    items = find_images(imagenet).splits["train"]
    rest, some = split_off(items, 0.34, seed=1)
    names = [part.name(i) for part in (rest, some) for i in range(len(part))]
    assert sorted(names) == [items.name(i) for i in range(6)]
    assert len(some) == 2
    again = split_off(items, 0.34, seed=1)[1]
    assert [again.name(i) for i in range(2)] == [some.name(i) for i in range(2)]
    assert len(random_subset(items, 4, seed=0)) == 4
    assert random_subset(items, 100, seed=0) is items
