"""The true classes of videos, in the order of the model, and data that a model cannot score."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation.labelled import check_classes, targets_of

DATA = ("walk", "run", "jump")  # the classes of the data
MODEL = ("jump", "walk", "wave", "run")


class Network(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.head = nn.Linear(2, outputs) if outputs else nn.Identity()


def card(labels: Sequence[str] | None, *, multi_label: bool = False) -> ModelCard:
    named = None if labels is None else tuple(labels)
    return ModelCard(architecture="x", labels=named, multi_label=multi_label)


ONE = [
    VideoRecord(path="a", label=0),
    VideoRecord(path="b", label=2),
    VideoRecord(path="c", label=1),
]
SEVERAL = [
    VideoRecord(path="a", labels=(0, 2)),
    VideoRecord(path="b", labels=()),
    VideoRecord(path="c", labels=(1,)),
]


def test_targets_are_numbered_as_the_model_numbers_them() -> None:
    assert targets_of(ONE, DATA, MODEL).tolist() == [1, 0, 3]
    shown = np.zeros((3, 4), bool)
    shown[0, [0, 1]] = shown[2, 3] = True
    np.testing.assert_array_equal(targets_of(SEVERAL, DATA, MODEL), shown)
    with pytest.raises(DataError, match="b has no list of labels, others of the data have"):
        targets_of([SEVERAL[0], ONE[1]], DATA, MODEL)
    with pytest.raises(DataError, match="d has no label; evaluate labelled videos"):
        targets_of([*ONE, VideoRecord(path="d")], DATA, MODEL)


def test_models_that_can_be_right_are_accepted() -> None:
    check_classes(Network(4), card(MODEL), ONE, DATA)
    check_classes(Network(3), card(None), ONE, DATA)
    check_classes(Network(4), card(MODEL, multi_label=True), SEVERAL, DATA)
    few = [VideoRecord(path="a", label=1)]  # the model need not know classes that no video shows
    check_classes(Network(1), card(["run"]), few, DATA)


@pytest.mark.parametrize(
    ("outputs", "model", "records", "message"),
    [
        (0, card(None), ONE, "an encoder without a classifying layer"),
        (4, card(None), ONE, "distinguishes 4 classes and has no names for them; the data has 3"),
        (2, card(["walk", "run"]), ONE, "1 of the 3 classes of the videos are not classes"),
        (2, card(["walk", "run"]), ONE, "of the model: jump. Its 2 classes are walk, run."),
        (4, card(MODEL), SEVERAL, "has several labels per video, but the model was trained on"),
        (4, card(MODEL, multi_label=True), ONE, "has one label per video, but the model was"),
        (2, card(["walk", "run"], multi_label=True), SEVERAL, "classes of the model: jump. Its"),
    ],
)
def test_models_that_cannot_be_right_are_refused(
    outputs: int, model: ModelCard, records: list[VideoRecord], message: str
) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        check_classes(Network(outputs), model, records, DATA)
