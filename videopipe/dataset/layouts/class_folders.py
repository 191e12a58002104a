"""Data sets in class folders, with or without split folders above them."""

from pathlib import Path

from videopipe.dataset.layouts.listing import (
    SPLIT_NAMES,
    DatasetListing,
    Item,
    group_of,
    has_videos,
    is_video,
    sorted_labels,
    subfolders,
    videos_below,
)


def find_split_folders(root: Path) -> DatasetListing | None:
    """`train/<class>/*.mp4`, `val/…`, `test/…`."""
    folders = [folder for folder in subfolders(root) if folder.name.lower() in SPLIT_NAMES]
    folders = [folder for folder in folders if has_videos(folder)]
    if not folders or not any(subfolders(folder) for folder in folders):
        return None
    items = [
        item
        for folder in folders
        for item in _class_items(folder, SPLIT_NAMES[folder.name.lower()])
    ]
    names = ", ".join(folder.name for folder in folders)
    return DatasetListing(
        f"class folders in split folders ({names})",
        tuple(items),
        sorted_labels(items),
    )


def find_class_folders(root: Path) -> DatasetListing | None:
    """`<class>/*.avi` without splits: every video is in "train" until the data set is divided."""
    if any(is_video(path) for path in root.iterdir() if path.is_file()):
        return None
    items = _class_items(root, "train")
    if not items:
        return None
    return DatasetListing("class folders without splits", tuple(items), sorted_labels(items))


def find_loose_videos(root: Path) -> DatasetListing | None:
    """Video files without labels, anywhere below."""
    items = [Item(path) for path in videos_below(root)]
    return DatasetListing("videos without labels", tuple(items), ()) if items else None


def _class_items(root: Path, split: str) -> list[Item]:
    return [
        Item(path, folder.name, split, group_of(path.stem, folder.name))
        for folder in subfolders(root)
        for path in videos_below(folder)
    ]
