"""Data sets that are folders: one per class, with or without one per split above them."""

from pathlib import Path

from videopipe.data.listing import (
    SPLIT_NAMES,
    Item,
    Listing,
    group_of,
    has_videos,
    is_video,
    sorted_labels,
    subfolders,
    videos_below,
)


def find_split_folders(root: Path) -> Listing | None:
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
    return Listing(
        f"class folders in split folders ({names})",
        tuple(items),
        sorted_labels(items),
        test_is_given="test" in {item.split for item in items},
    )


def find_class_folders(root: Path) -> Listing | None:
    """`<class>/*.avi`, no split given: all of it is "train" until divided."""
    if any(is_video(path) for path in root.iterdir() if path.is_file()):
        return None
    items = _class_items(root, "train")
    if not items:
        return None
    return Listing("class folders without splits", tuple(items), sorted_labels(items))


def find_loose_videos(root: Path) -> Listing | None:
    """Video files without labels, anywhere below."""
    items = [Item(path) for path in videos_below(root)]
    return Listing("videos without labels", tuple(items), ()) if items else None


def _class_items(root: Path, split: str) -> list[Item]:
    return [
        Item(path, folder.name, split, group_of(path.stem, folder.name))
        for folder in subfolders(root)
        for path in videos_below(folder)
    ]
