"""Folders of numbered images behind URLs, copied to the scratch folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopipe.errors import DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.frame_folder import frame_names
from videopipe.video.sources.remote import RemoteObject, file_system, object_of, retried
from videopipe.video.sources.scratch import scratch_subfolder

FRAMES_PER_CALL = 32  # requested at once where the driver can


@dataclass(frozen=True)
class RemoteFrames:
    """The images of a folder, from one listing."""

    paths: Mapping[str, str]  # file name -> path for the driver
    objects: Mapping[str, RemoteObject]

    @property
    def size_bytes(self) -> int:
        """The sum of the sizes that the server gives."""
        return sum(one.size_bytes or 0 for one in self.objects.values())

    @property
    def modified_at(self) -> float | None:
        """When the newest image was written; None where the server does not tell."""
        return max(
            (one.modified_at for one in self.objects.values() if one.modified_at), default=None
        )


def describe_frames(url: str) -> RemoteFrames:
    """List the images of a folder that are frames of one video; DecodeError without any."""
    driver, path = file_system(url)
    driver.invalidate_cache(path)
    entries = {
        str(entry["name"]).rpartition("/")[2]: entry for entry in driver.ls(path, detail=True)
    }
    names = sorted(frame_names(entries).values())
    if not names:
        raise DecodeError(
            url, "is a folder; expected a video, or a folder of numbered images of one sequence "
            "(00001.jpg, 00002.jpg, …)",
        )  # fmt: skip
    return RemoteFrames(
        {name: entries[name]["name"] for name in names},
        {name: object_of(entries[name]) for name in names},
    )


@contextmanager
def copied_frames(url: str) -> Iterator[Path]:
    """A folder of this machine with the images, for as long as the context lasts."""
    found = retried(url, lambda: describe_frames(url))
    with scratch_subfolder(url, found.size_bytes) as folder:
        driver, _ = file_system(url)
        left = list(found.paths)
        while left:
            names, left = left[:FRAMES_PER_CALL], left[FRAMES_PER_CALL:]
            for name, content in retried(url, lambda: _contents(driver, found, names)).items():  # noqa: B023
                (folder / name).write_bytes(content)
        if retried(url, lambda: describe_frames(url)) != found:
            raise DecodeError(url, "the folder changed while it was copied")
        yield folder


def _contents(driver: Any, found: RemoteFrames, names: list[str]) -> dict[str, bytes]:
    paths = [found.paths[name] for name in names]
    contents = dict(zip(names, driver.cat_ranges(paths, None, None, on_error="raise"), strict=True))
    heartbeat()
    for name, content in contents.items():
        size = found.objects[name].size_bytes
        if size is not None and len(content) != size:
            raise ConnectionError(f"{name} has {len(content)} of {size} bytes")
    return contents
