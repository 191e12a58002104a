"""The table of one evaluation, character by character, and the note below it."""

from typing import Any

import pytest

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.evaluation.context import NOTES, describe_protocol
from videopipe.evaluation.table_text import table_text


def metrics(num_classes: int) -> dict[str, Any]:
    def entry(value: float) -> dict[str, float]:
        return {"value": value, "low": value / 2, "high": (1 + value) / 2}

    per_class = [
        {"label": f"c{number}", "trials": number + 1, **entry(number / 20)}
        for number in reversed(range(num_classes))
    ]
    return {
        "top1": entry(0.5), "top5": entry(1.0), "mean_class": 0.25, "per_class": per_class,
        "videos": 7, "recordings": 3, "failed": 0, "protocol_note": "A note.",
    }  # fmt: skip


def test_the_lowest_ten_classes_are_shown() -> None:
    lines = table_text(metrics(12)).splitlines()
    assert lines[:6] == [
        "                     %   95 % interval",
        "top-1             50.0   25.0 to 75.0",
        "top-5            100.0   50.0 to 100.0",
        "mean of classes   25.0",
        "  c0               0.0   0.0 to 50.0   (1 videos)",
        "  c1               5.0   2.5 to 52.5   (2 videos)",
    ]
    assert [line.split()[0] for line in lines[4:14]] == [f"c{number}" for number in range(10)]
    assert lines[14:] == ["  … and 2 classes above these", "7 videos of 3 recordings. A note."]


@pytest.mark.parametrize(("num_classes", "all_classes"), [(10, False), (12, True)])
def test_nothing_is_left_out_where_all_are_shown(num_classes: int, all_classes: bool) -> None:
    lines = table_text(metrics(num_classes), all_classes=all_classes).splitlines()
    assert len(lines) == 4 + num_classes + 1
    assert not any("above these" in line for line in lines)


CHOSEN = "The checkpoint was chosen on these videos: the accuracy is too high for new videos."
TRAINED = " These are training videos: the accuracy does not hold for new videos."
MAYBE = " Training may have used these validation videos: the number may be too high."


@pytest.mark.parametrize("protocol", NOTES)
def test_the_note_says_how_the_checkpoint_was_chosen(protocol: str) -> None:
    made = {} if protocol == "none" else {"protocol": protocol}
    card = ModelCard(architecture="x", provenance=made)
    notes = {split: describe_protocol(card, split) for split in ("train", "val", "test")}
    assert {note["protocol"] for note in notes.values()} == {protocol}
    assert notes["test"]["protocol_note"] == NOTES[protocol]
    assert notes["train"]["protocol_note"] == NOTES[protocol] + TRAINED
    on_validation = {"validation": CHOSEN, "none": NOTES["none"]}
    assert notes["val"]["protocol_note"] == on_validation.get(protocol, NOTES[protocol] + MAYBE)
