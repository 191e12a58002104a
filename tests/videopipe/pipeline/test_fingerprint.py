"""Changes that do and do not change a fingerprint."""

import dataclasses
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrained_2d.setting import setting
from videopipe.pipeline.fingerprint import (
    digest_of_files,
    digest_of_listed_videos,
    fingerprint,
    identify,
)
from videopipe.pipeline.jobs import Job
from videopipe.pipeline.results import _revision_of
from videopipe.pipeline.stage import Input, Kind, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    speed: int = setting(1, runtime=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    number: int = 0
    real: float = 0.0
    text: str = ""
    flag: bool = False
    many: tuple[int, ...] = ()
    named: dict[str, float] = dataclasses.field(default_factory=dict)
    maybe: int | None = None
    inner: Inner = Inner()
    workers: int = setting(1, runtime=True)


reals = st.floats(allow_nan=False, allow_infinity=False)
inner = st.builds(Inner, rate=reals, speed=st.integers())
settings_of_a_stage = st.builds(
    Settings,
    number=st.integers(),
    real=reals,
    text=st.text(max_size=5),
    flag=st.booleans(),
    many=st.lists(st.integers(), max_size=3).map(tuple),
    named=st.dictionaries(st.text(max_size=3), reals, max_size=3),
    maybe=st.none() | st.integers(),
    inner=inner,
    workers=st.integers(),
)
NUM_STAGES = 5


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[Settings], list[list[int]]]:
    """Settings of each stage, and from which earlier stages each takes its inputs."""
    configs = [draw(settings_of_a_stage) for _ in range(NUM_STAGES)]
    sources = [
        draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
        for index in range(NUM_STAGES)
    ]
    return configs, sources


def build(configs: list[Settings], sources: list[list[int]], version: int = 1) -> list[Job]:
    accepts = {f"input{k}": Input((Kind.CLIPS,), required=False) for k in range(2)}
    stage: Stage[Any] = Stage(Settings, lambda *_: {}, version, Kind.CLIPS, accepts)
    jobs: list[Job] = []
    for index, config in enumerate(configs):
        inputs = {f"input{k}": (jobs[source],) for k, source in enumerate(sources[index])}
        jobs.append(Job(f"stage{index}", "stage", stage, config, inputs))
    return jobs


def dependants(sources: list[list[int]], changed: int) -> set[int]:
    found = {changed}
    for index, above in enumerate(sources):
        if found & set(above):
            found.add(index)
    return found


@given(pipelines(), st.integers(0, NUM_STAGES - 1), settings_of_a_stage, st.data())
def test_a_change_reaches_its_stage_and_all_downstream_and_nothing_else(
    pipeline: tuple[list[Settings], list[list[int]]],
    changed: int,
    other: Settings,
    data: st.DataObject,
) -> None:
    configs, sources = pipeline
    name = data.draw(st.sampled_from([field.name for field in dataclasses.fields(Settings)]))
    old = configs[changed]
    new = dataclasses.replace(old, **{name: getattr(other, name)})
    before = [job.fingerprint for job in build(configs, sources)]
    after = [
        job.fingerprint
        for job in build([*configs[:changed], new, *configs[changed + 1 :]], sources)
    ]
    same = name == "workers" or getattr(old, name) == getattr(new, name)
    if name == "inner":
        same = old.inner.rate == new.inner.rate
    expected = set() if same else dependants(sources, changed)
    assert {i for i in range(NUM_STAGES) if before[i] != after[i]} == expected


@given(pipelines())
def test_a_version_changes_everything(pipeline: tuple[list[Settings], list[list[int]]]) -> None:
    one, two = build(*pipeline), build(*pipeline, version=2)
    assert all(a.fingerprint != b.fingerprint for a, b in zip(one, two, strict=True))


def test_whole_numbers_are_the_same_however_written() -> None:
    assert fingerprint(identify(Settings(real=1))) == fingerprint(identify(Settings(real=1.0)))


def test_a_fingerprint_is_the_digest_of_sorted_ascii_json() -> None:
    """Fixed, so that results of earlier versions are found."""
    text = b'{"a":[true,null],"b":{"x":1,"y":2.5},"\\u00e9":"z"}'
    expected = hashlib.sha256(text).hexdigest()[:12]
    assert fingerprint({"é": "z", "b": {"y": 2.5, "x": 1}, "a": [True, None]}) == expected


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a.avi", "class/b.avi"):
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "data"


def digest(path: Path) -> str:
    digest_of_files.cache_clear()
    return digest_of_files(path)


def test_data_may_move(data: Path, tmp_path: Path) -> None:
    before = digest(data)
    assert digest(Path(shutil.move(data, tmp_path / "elsewhere"))) == before


def test_data_may_not_change_unnoticed(data: Path) -> None:
    seen = {digest(data)}
    (data / "class/b.avi").write_text("longer than before")
    seen.add(digest(data))
    os.utime(data / "a.avi", (1, 1))
    seen.add(digest(data))
    (data / "a.avi").rename(data / "c.avi")
    seen.add(digest(data))
    (data / "class/b.avi").unlink()
    seen.add(digest(data))
    assert len(seen) == 5


def test_a_size_counts_at_the_same_time_and_a_nanosecond_at_the_same_size(data: Path) -> None:
    file, moment = data / "a.avi", 1_700_000_000_000_000_000
    seen = set()
    for text, nanoseconds in (("one", 0), ("four", 0), ("four", 1000)):
        file.write_text(text)
        os.utime(file, ns=(moment, moment + nanoseconds))
        seen.add(digest(data))
    assert len(seen) == 3


def listed(folder: Path) -> str:
    digest_of_listed_videos.cache_clear()
    return digest_of_listed_videos(folder)


def test_videos_of_lists_count_where_the_folder_of_the_lists_does_not_hold_them(
    tmp_path: Path,
) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    assert listed(lists) == ""
    videos = [tmp_path / f"{split}.mp4" for split in (1, 2, 3)] + [lists / "inside.mp4"]
    for split in (1, 2, 3):
        rows = [f"{path},walk,train" for path in (videos[split - 1], videos[3])]
        text = "\n".join(["path,label,split", *rows]) + "\n"
        (lists / f"train_split_{split}.csv").write_text(text)
    for video in videos:
        video.write_text("four")
    seen = [listed(lists)]
    for video in videos[:3]:  # of every official split: first its size, then its time
        time = video.stat().st_mtime_ns
        video.write_text("three")
        os.utime(video, ns=(time, time))
        seen.append(listed(lists))
        os.utime(video, ns=(time, time + 1000))
        seen.append(listed(lists))
    assert len(set(seen)) == 7
    videos[3].write_text("another size")  # counted with the files of the folder
    assert listed(lists) == seen[-1]


def test_a_field_that_was_added_later_counts_where_it_is_used() -> None:
    @dataclasses.dataclass(frozen=True)
    class Earlier:
        number: int = 0

    @dataclasses.dataclass(frozen=True)
    class Later(Earlier):
        shots: bool = setting(False, "only within shots", added=True)

    assert identify(Later(number=3)) == identify(Earlier(number=3))
    assert identify(Later(number=3, shots=True)) == {"number": 3, "shots": True}


def test_a_revision_tells_apart_what_failed_what_was_made_again_and_the_inputs() -> None:
    outcomes: list[tuple[str, list[str], dict[str, list[str]]]] = [
        ("", [], {}),
        ("", ["a"], {}),
        ("", ["b"], {}),
        ("", ["a", "b"], {}),
        ("request", [], {}),
        ("request", ["a"], {}),
        ("", [], {"clips": ["1"]}),
        ("", [], {"clips": ["2"]}),
        ("", ["a"], {"clips": ["1"]}),
    ]
    assert len({_revision_of(*outcome) for outcome in outcomes}) == len(outcomes)
    assert _revision_of("", ["a", "b"], {}) == _revision_of("", ["b", "a"], {})
    assert _revision_of("", [], {}) == _revision_of("", [], {"clips": ["", ""]}) == ""
