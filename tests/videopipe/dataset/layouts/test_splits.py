"""Recordings stay together, every class keeps training videos, and folds cover everything."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from videopipe.dataset.layouts.listing import Item
from videopipe.dataset.layouts.splits import carve_validation, fold_of_groups


def films(sizes: dict[str, dict[str, int]], split: str = "train") -> list[Item]:
    """Videos by class and film: {"run": {"film": 3}}."""
    return [
        Item(Path(label, f"{film}_{number}.avi"), label, split, film)
        for label, counts in sizes.items()
        for film, count in counts.items()
        for number in range(count)
    ]


def moved(items: list[Item], fraction: float, seed: int = 0) -> Counter[str | None]:
    """Validation videos by class, after checking what holds for any data."""
    found = carve_validation(items, fraction, seed)
    assert [(item.path, item.label, item.group) for item in found] == [
        (item.path, item.label, item.group) for item in items
    ]
    groups = {name: {i.group for i in found if i.split == name} for name in ("train", "val")}
    assert not groups["train"] & groups["val"]
    training = {item.label for item in found if item.split == "train"}
    assert training == {item.label for item in items if item.split == "train"}
    tested = [(old, new) for old, new in zip(items, found, strict=True) if old.split != "train"]
    assert all(old == new for old, new in tested)
    return Counter(item.label for item in found if item.split == "val")


def test_about_a_fraction_of_each_class_is_moved() -> None:
    items = films(
        {
            "even": {f"e{number}": 1 for number in range(20)},
            "pairs": {f"p{number}": 2 for number in range(10)},
            "one film": {"o": 20},  # the class would have no training video left
            "two": {"t0": 1, "t1": 1},
        }
    )
    items += films({"even": {"e0-test": 3}}, split="test")
    assert moved(items, 0.2) == {"even": 4, "pairs": 4, "two": 1}
    # A film is moved only if more of its videos are needed than not.
    assert moved(films({"run": {f"r{number}": 3 for number in range(4)}}), 1 / 12) == {}
    assert moved(films({"run": {f"r{number}": 3 for number in range(4)}}), 2 / 12) == {"run": 3}


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("uvwxyz"), st.integers(1, 5), min_size=1),
        min_size=1,
    ),
    st.floats(0.05, 0.95),
)
def test_recordings_are_not_divided_and_no_class_is_emptied(
    sizes: dict[str, dict[str, int]], fraction: float
) -> None:
    moved(films(sizes), fraction)  # films are shared by classes here


def test_validation_videos_depend_on_the_seed_and_not_on_the_order_of_the_files() -> None:
    items = films({"run": {f"r{number:02}": 1 for number in range(20)}})

    def chosen(given: list[Item], seed: int) -> set[str | None]:
        return {i.group for i in carve_validation(given, 0.3, seed) if i.split == "val"}

    assert chosen(items, 0) == chosen(items[::-1], 0)
    assert len({frozenset(chosen(items, seed)) for seed in range(5)}) == 5


def test_every_recording_is_tested_in_one_fold() -> None:
    names = [f"person{number:02}" for number in range(10)]
    items = films({"run": dict.fromkeys(names, 2), "walk": dict.fromkeys(names, 1)})
    folds = []
    for fold in range(3):
        found = fold_of_groups(items, 3, fold)
        tested = {item.group for item in found if item.split == "test"}
        assert tested.isdisjoint(item.group for item in found if item.split == "train")
        assert {item.split for item in found} == {"train", "test"}
        folds.append(tested)
    assert sorted(name for tested in folds for name in tested if name) == names
    assert sorted(map(len, folds)) == [3, 3, 4]
    # Neighbours in the alphabet, often of one place or day, are not dealt out in turn.
    assert folds[0] != set(names[::3])
    last = fold_of_groups(items, 10, 9)  # leave one out is in the order of the alphabet
    assert {item.group for item in last if item.split == "test"} == {"person09"}
