"""HMDB-51 and UCF-101: data sets whose splits are text files beside the videos."""

import re
from collections import defaultdict
from pathlib import Path

from videopipe.dataset.layouts.listing import (
    DatasetListing,
    Item,
    group_of,
    same_name,
    subfolders,
    videos_below,
)
from videopipe.errors import DataError

SPLIT_FILE = re.compile(r"(?P<label>.+)_test_split(?P<number>[123])\.txt")
MARKS = {"0": "unused", "1": "train", "2": "test"}
# <film>_<class>_<visible part>_<camera motion>_<number of people>_<angle>_<quality>_<number>
NAME_TAIL = r"_[a-z]_(nm|cm)_np\d+_(fr|ba|le|ri)_(goo|med|bad)_\d+"


def find_hmdb51(root: Path, split: int) -> DatasetListing | None:
    """Split files `<class>_test_split<1|2|3>.txt` in any folder near the videos."""
    lists = _folder_with(root, f"*_test_split{split}.txt")
    if lists is None:
        return None
    listed: dict[str, dict[str, str]] = {}  # class -> file name -> split
    for path in sorted(lists.glob(f"*_test_split{split}.txt")):
        match = SPLIT_FILE.fullmatch(path.name)
        if match:
            listed[match["label"]] = _read_split_file(path)
    labels = tuple(sorted(listed))
    found = _videos_by_class(root, labels)
    items: list[Item] = []
    extra: list[str] = []
    for label in labels:
        videos = found[label]
        for name, assigned in listed[label].items():
            missing = name not in videos
            place = root / label / name if missing else videos.pop(name)
            items.append(Item(place, label, assigned, film_of(name, label), missing=missing))
        extra.extend(str(path) for path in videos.values())
    layout = f"HMDB-51, split {split} ({lists.name}, {len(labels)} classes)"
    return DatasetListing(layout, tuple(items), labels, tuple(extra))


def film_of(name: str, label: str) -> str:
    """The film a clip was cut from.

    `April_09_brush_hair_u_nm_np1_ba_goo_0.avi` in class `brush_hair` -> `April_09`.
    """
    stem = name.removesuffix(".avi")
    match = re.fullmatch(rf"(.*?)_{re.escape(label)}{NAME_TAIL}", stem)
    if match:
        return match[1]
    return re.sub(NAME_TAIL + "$", "", stem)  # a few names contain another class


def find_ucf101(root: Path, split: int) -> DatasetListing | None:
    """`trainlist01.txt`, `testlist01.txt` and `classInd.txt`."""
    lists = _folder_with(root, f"trainlist0{split}.txt")
    if lists is None:
        return None
    found = {f"{path.parent.name}/{same_name(path.name)}": path for path in videos_below(root)}
    items = []
    for kind in ("train", "test"):
        path = lists / f"{kind}list0{split}.txt"
        if not path.is_file():
            raise DataError(f"{lists}: {path.name} is missing beside the other UCF-101 lists")
        for line in _lines(path):
            name = re.sub(r"\s+\d+$", "", line.strip())  # training lines end in the class number
            if name:
                label, _, file = name.rpartition("/")
                video = found.pop(f"{label}/{same_name(file)}", None)
                items.append(
                    Item(
                        video or root / name,
                        label,
                        kind,
                        group_of(Path(file).stem, label),
                        missing=video is None,
                    )
                )
    labels = _ucf101_classes(lists) or tuple(sorted({item.label or "" for item in items}))
    extra = tuple(str(path) for path in found.values())
    layout = f"UCF-101, split {split} ({lists.name}, {len(labels)} classes)"
    return DatasetListing(layout, tuple(items), labels, extra)


def _ucf101_classes(lists: Path) -> tuple[str, ...]:
    path = lists / "classInd.txt"
    if not path.is_file():
        return ()
    rows = [line.split(maxsplit=1) for line in _lines(path)]
    numbered = sorted((int(row[0]), row[1].strip()) for row in rows if len(row) == 2)
    return tuple(name for _, name in numbered)


def _read_split_file(path: Path) -> dict[str, str]:
    """Lines `<name>.avi <0|1|2>`; names may contain spaces, so the last space separates."""
    assigned = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        name, _, mark = line.strip().rpartition(" ")
        if mark not in MARKS or not name:
            raise DataError(
                f"{path}:{number}: expected a file name and 0, 1 or 2, got {line.strip()!r}"
            )
        assigned[same_name(name.strip())] = MARKS[mark]
    return assigned


def _lines(path: Path) -> list[str]:
    """The lines of a text file; file names in it may have any byte but a line feed."""
    return path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")


def _videos_by_class(root: Path, labels: tuple[str, ...]) -> dict[str, dict[str, Path]]:
    """Videos by class: the nearest folder above each video that has the name of a class."""
    known = set(labels)
    found: dict[str, dict[str, Path]] = defaultdict(dict)
    for path in videos_below(root):
        below = path.relative_to(root).parts[:-1]
        label = next((part for part in reversed(below) if part in known), None)
        if label is not None:
            found[label][same_name(path.name)] = path
    return found


def _folder_with(root: Path, pattern: str) -> Path | None:
    """The folder with the split files: `root`, at most two levels below it, or beside it."""
    beside = [] if any(root.glob("*_test_split*.txt")) else _list_folders(root.parent)
    for folder in [root, *subfolders(root), *beside]:
        candidates = [folder] if folder in beside else [folder, *subfolders(folder)]
        for candidate in candidates:
            if next(candidate.glob(pattern), None) is not None:
                return candidate
    return None


def _list_folders(parent: Path) -> list[Path]:
    names = (
        "testTrainMulti_7030_splits",
        "test_train_splits",
        "splits",
        "annotations",
        "ucfTrainTestlist",
    )
    return [parent / name for name in names if (parent / name).is_dir()]
