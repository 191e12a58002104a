import json

import pytest
from PIL import Image

from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.layouts import find_images
from pretrained_2d.images.preparation import (
    find_broken,
    leave_out,
    readable,
    training_and_validation,
)


@pytest.fixture
def folder(tmp_path):
    for label in ("cat", "dog"):
        place = tmp_path / "images" / label
        place.mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8)).save(place / f"{number}.png")
    broken = tmp_path / "images/dog/1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    return tmp_path / "images"


def test_broken_images_are_counted_named_and_left_out(folder):
    items = find_images(folder).splits["train"]
    broken = find_broken(items, workers=0)
    assert [each.name for each in broken.values()] == ["dog/1.png"]
    assert "dog/1.png" in broken[5].reason
    kept = leave_out(items, broken, max_broken=1, where=folder)
    assert len(kept) == 7
    assert "dog/1.png" not in [kept.name(i) for i in range(7)]


def test_above_the_limit_the_run_stops_and_names_them(folder):
    items = find_images(folder).splits["train"]
    with pytest.raises(ImageDataError, match=r"1 of 8 images.*max_broken is 0:\n.*dog/1\.png"):
        leave_out(items, find_broken(items, workers=0), max_broken=0, where=folder)


@pytest.mark.slow
def test_workers_find_the_same(folder, monkeypatch):
    monkeypatch.setattr("pretrained_2d.images.preparation.CHUNK", 3)
    items = find_images(folder).splits["train"]
    assert find_broken(items, workers=2) == find_broken(items, workers=0)


def test_the_record_is_written_once_and_taken_by_a_resumed_run(folder, tmp_path, monkeypatch):
    listing, record = find_images(folder), tmp_path / "images.json"
    options = {"folder": folder, "record": record, "max_broken": 1, "workers": 0}
    first = readable(listing, **options)
    assert len(first["train"]) == 7
    assert json.loads(record.read_text())["broken"]["train"]["5"]["name"] == "dog/1.png"
    monkeypatch.setattr(
        "pretrained_2d.images.preparation.find_broken", lambda *_, **__: pytest.fail("read again")
    )
    assert len(readable(listing, **options)["train"]) == 7


def test_validation_is_a_share_of_training_and_never_the_test_split(folder):
    items = find_images(folder).splits["train"]
    training, validation = training_and_validation({"train": items, "test": items}, 0.25, seed=0)
    assert (len(training), len(validation)) == (6, 2)
    own = training_and_validation({"train": items, "val": items}, 0.25, seed=0)
    assert own == (items, items)
