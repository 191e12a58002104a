"""Lists of any length: what waits is on disk, and videos are found once."""

import errno
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import REPOSITORY
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.prediction import long_list
from videopipe.prediction.discovery import BackgroundListing, VideoListing
from videopipe.prediction.long_list import DiskQueue, IdSet

LIST_ALL = """
import sys, time
from pathlib import Path
from videopipe.prediction.discovery import BackgroundListing, VideoListing

def private_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

file, before = Path(sys.argv[1]), private_bytes()
peak, found = before, BackgroundListing(VideoListing([file]), file.parent)
found.read_on()
while not found.complete:
    peak = max(peak, private_bytes())
    time.sleep(0.01)
print(sum(1 for _ in found), max(peak, private_bytes()) - before)
"""


def test_what_is_put_in_comes_out_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(long_list, "ITEMS_PER_BLOCK", 7)
    queue, found = DiskQueue(tmp_path), []
    items = [f"caf\udce9 {number}" for number in range(5000)]
    for item in items[:100]:
        queue.put(item)
    writer = Thread(target=lambda: [queue.put(item) for item in items[100:]])
    writer.start()
    found = [queue.get() for _ in items]
    writer.join()
    assert found == items
    assert queue.empty()
    assert list(tmp_path.iterdir()) == []


def test_a_listing_holds_few_videos(tmp_path):
    paths = [f"/videos/{number:06}.mp4" for number in range(20_000)]
    (tmp_path / "list.txt").write_text("\n".join([*paths, *paths[:100]]))
    listing = BackgroundListing(VideoListing([tmp_path / "list.txt"]), tmp_path)
    listing.read_on()
    while not listing.complete:
        pass
    held = len(listing._found._first) + len(listing._found._last)
    assert held <= 2 * long_list.ITEMS_PER_BLOCK
    assert [video.path for video in listing] == paths
    assert list(listing.order) == [int(VideoRange(path).id, 16) for path in paths]


def test_a_full_disk_ends_the_listing_with_its_error(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(long_list, "TemporaryFile", full)
    monkeypatch.setattr(long_list, "ITEMS_PER_BLOCK", 100)
    (tmp_path / "list.txt").write_text("\n".join(f"/v/{n}.mp4" for n in range(5000)))
    listing = BackgroundListing(VideoListing([tmp_path / "list.txt"]), tmp_path)
    with pytest.raises(OSError, match="No space left"):
        list(listing)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(2, 40), max_size=300))
def test_ids_are_new_once(numbers):
    seen, expected = IdSet(), set()
    for number in numbers:
        kept = number or 1  # 0 marks a free slot
        assert seen.add(number) == (kept not in expected)
        expected.add(kept)
    assert len(seen) == len(expected)


def test_many_ids():
    seen = IdSet()
    numbers = [int(VideoRange(f"/v/{number}").id, 16) for number in range(5000)]
    assert all(seen.add(number) for number in numbers)
    assert not any(seen.add(number) for number in numbers)
    assert len(seen) == 5000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_list_of_a_million_paths_is_not_held(tmp_path: Path) -> None:
    count, file = 1_000_000, tmp_path / "list.txt"
    with file.open("w") as lines:
        lines.writelines(f"/data/videos/{n // 1000:05}/{n:09}.mp4\n" for n in range(count))
    done = subprocess.run(
        [sys.executable, "-c", LIST_ALL, file],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows, grown = map(int, done.stdout.split())
    print(f"{grown / 2**20:.0f} MiB for a list of {file.stat().st_size / 2**20:.0f} MiB")
    assert rows == count
    assert grown < file.stat().st_size + 30 * 2**20  # ids: 8 bytes, and a table of 16 to 24
