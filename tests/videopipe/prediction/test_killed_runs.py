"""Runs over every kind of source and into every format, killed with SIGKILL and resumed."""

import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pretrained_2d.checkpoints.folder import read_card
from tests.hub_server import hub
from tests.processes import ACCELERATE, ENVIRONMENT, TORCHRUN, kill, run, start_paused
from tests.servers import Site, google_bucket, web_site
from videopipe.cli import main
from videopipe.prediction.request import TableRequest
from videopipe.prediction.table.lance_dataset import LANCE_SUFFIX
from videopipe.prediction.table.parts import read_part

QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]
WRITERS = "videopipe.prediction.table.parts:PartWriter.add"
ARROW_WRITERS = "videopipe.prediction.table.arrow_parts:ArrowPartWriter.add"
COUNT = 4


@pytest.fixture(scope="module")
def films(tmp_path_factory, noisy_video: Callable[..., Path]) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    return [noisy_video(folder / f"{number}.mp4", number) for number in range(COUNT)]


@pytest.fixture
def site(films, tmp_path, monkeypatch) -> Iterator[Site]:
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    with web_site() as found:
        found.files = {film.name: film.read_bytes() for film in films}
        yield found


@pytest.fixture
def in_environment(monkeypatch) -> Callable[..., None]:
    """Sets variables of this process and of those that it starts."""

    def set_variables(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("tests.processes.ENVIRONMENT", {**ENVIRONMENT, **os.environ})

    return set_variables


def shard_of(path: Path, films: list[Path]) -> Path:
    with tarfile.open(path, "w") as tar:
        for film in films:
            tar.add(film, film.name)
    return path


def frame_folders(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"{number}").mkdir(parents=True)
        for frame in range(12):
            picture = Image.new("RGB", (56, 40), (20 * frame, 60 * number, 100))
            picture.save(folder / f"{number}" / f"frames_{frame:06}.jpg")
    return folder


def links_to(names: Iterable[str]) -> bytes:
    """A page as web servers make for a folder."""
    return "".join(f'<a href="{name}">{name}</a>' for name in names).encode()


def killed_and_resumed(
    words: list[object], out: Path, rows: int = 2, writer: str = WRITERS, verb: str = "predict"
) -> None:
    """Kill the command after some rows; give it again in another process."""
    command = [verb, *map(str, words), "--out", str(out), *QUICK]
    kill(start_paused(writer, rows, command))
    assert not out.exists()
    run([sys.executable, "-m", "videopipe", *command])
    summary = json.loads(out.with_name(f"{out.name}.summary.json").read_text())
    left = summary["videos"] - rows
    # Arrow parts are written every 0.2 s, so the last row may be predicted once more.
    assert summary["predicted_in_this_run"] in (left, left + (writer == ARROW_WRITERS))


def rows_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def scores_of(row: dict) -> tuple[object, ...]:
    return row["status"], row["content_id"], row["label_1"], row["probability_1"]


@pytest.mark.slow
def test_one_list_of_all_sources_has_one_row_per_video(
    tiny_model, films, site, tmp_path, in_environment
):
    in_environment()
    shard = shard_of(tmp_path / "shard.tar", films)
    feather.write_feather(
        pa.table({"bytes": [film.read_bytes() for film in films]}), tmp_path / "t.arrow"
    )
    frames = frame_folders(tmp_path / "frames", 1) / "0"
    paths = [
        films[0], f"{site.url}/0.mp4", f"{shard}/0.mp4", f"{tmp_path}/t.arrow/0", frames,
        f"{site.url}/gone.mp4", f"{shard}/1.mp4", f"{tmp_path}/t.arrow/1", f"{site.url}/1.mp4",
        films[1],
    ]  # fmt: skip
    lines = [f"{path},{12 if path == frames else ''}" for path in paths]
    (tmp_path / "all.csv").write_text("\n".join(["path,frame_rate", *lines, lines[1], ""]))
    killed_and_resumed([tiny_model, tmp_path / "all.csv"], tmp_path / "out.jsonl", rows=4)
    rows = rows_of(tmp_path / "out.jsonl")
    assert [row["path"] for row in rows] == list(map(str, paths))
    statuses = [row["status"] for row in rows]
    assert statuses == ["ok"] * 5 + ["missing"] + ["ok"] * 4
    assert len({scores_of(row) for row in rows[:4]}) == 1  # the same film from four places
    assert len({scores_of(row) for row in rows[6:]}) == 1


def source_of(kind: str, tmp_path: Path, films: list[Path], site: Site) -> list[object]:
    """What to give to the command, for the films as a source of this kind."""
    paths, file = [str(film) for film in films], tmp_path / f"list.{kind}"
    match kind:
        case "http":
            return [f"{site.url}/{film.name}" for film in films]
        case "tar":
            return [shard_of(tmp_path / "films.tar", films)]
        case "tar behind a URL":
            site.files["films.tar"] = shard_of(tmp_path / "films.tar", films).read_bytes()
            return [f"{site.url}/films.tar"]
        case "frames":
            return [frame_folders(tmp_path / "frames", COUNT), "--frame-rate", "12"]
        case "frames behind a URL":
            folder = frame_folders(tmp_path / "frames", COUNT)
            for clip in folder.iterdir():
                pages = {f"{clip.name}/{file.name}": file.read_bytes() for file in clip.iterdir()}
                site.files |= {f"frames/{name}": content for name, content in pages.items()}
                site.files[f"frames/{clip.name}/"] = links_to(file.name for file in clip.iterdir())
            site.files["frames/"] = links_to(f"{clip.name}/" for clip in folder.iterdir())
            return [f"{site.url}/frames/", "--frame-rate", "12"]
        case "txt":
            file.write_text("\n".join(paths))
        case "jsonl":
            file.write_text("".join(json.dumps({"path": path}) + "\n" for path in paths))
        case "parquet":
            pq.write_table(pa.table({"path": paths}), file)
        case "arrow":
            feather.write_feather(pa.table({"path": paths}), str(file))
    return [file]


KINDS = [
    "http", "tar", "tar behind a URL", "frames", "frames behind a URL", "txt", "jsonl", "parquet",
    "arrow",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_killed_and_resumed_has_one_row_per_video(
    tiny_model, films, site, tmp_path, in_environment, kind
):
    in_environment()
    words = source_of(kind, tmp_path, films, site)
    killed_and_resumed([tiny_model, *words], tmp_path / "out.jsonl")
    rows = rows_of(tmp_path / "out.jsonl")
    assert [Path(row["path"]).stem for row in rows] == [str(n) for n in range(COUNT)]
    assert [row["status"] for row in rows] == ["ok"] * COUNT
    assert len({row["content_id"] for row in rows}) == COUNT


@pytest.mark.slow
def test_a_data_set_of_the_hub_killed_and_resumed(tiny_model, films, tmp_path, in_environment):
    files = {f"day/{film.name}": film.read_bytes() for film in films}
    with hub("someone/films", files) as (address, _):
        in_environment(HF_ENDPOINT=address, VIDEOPIPE_SCRATCH=str(tmp_path / "scratch"))
        inside = "hf://datasets/someone/films/"
        words = [tiny_model, f"{inside}day/", f"{inside}gone.mp4"]
        killed_and_resumed(words, tmp_path / "out.jsonl")
    rows = rows_of(tmp_path / "out.jsonl")
    assert [row["path"].removeprefix(inside) for row in rows] == [*files, "gone.mp4"]
    assert [row["status"] for row in rows] == ["ok"] * COUNT + ["missing"]
    assert rows[-1]["error"] == "no such object"


@pytest.mark.slow
def test_a_google_bucket_killed_and_resumed(tiny_model, films, tmp_path, in_environment):
    pytest.importorskip("gcsfs", reason="to run this test: pip install 'videopipe[gcs]'")
    objects = {f"day/{film.name}": film.read_bytes() for film in films}
    with google_bucket("films", objects) as (address, _):
        scratch = tmp_path / "scratch"
        in_environment(STORAGE_EMULATOR_HOST=address, VIDEOPIPE_SCRATCH=str(scratch))
        words = [tiny_model, "gs://films/day/", "gs://films/gone.mp4"]
        killed_and_resumed(words, tmp_path / "out.jsonl")
    rows = rows_of(tmp_path / "out.jsonl")
    assert [row["path"].removeprefix("gs://films/") for row in rows] == [*objects, "gone.mp4"]
    assert [row["status"] for row in rows] == ["ok"] * COUNT + ["missing"]
    assert [file.name for file in scratch.iterdir()] == [".lock"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow", ".tar", ".lance"])
def test_every_format_killed_and_resumed_has_one_row_per_video(tiny_model, films, tmp_path, suffix):
    if suffix == LANCE_SUFFIX:
        pytest.importorskip("lance", reason="to run this test: pip install 'videopipe[lance]'")
    words = ["predict", str(tiny_model), *map(str, films), *QUICK]
    whole, killed = tmp_path / f"whole{suffix}", tmp_path / f"killed{suffix}"
    assert main([*words, "--out", str(whole)]) == 0
    writer = ARROW_WRITERS if suffix == LANCE_SUFFIX else WRITERS
    killed_and_resumed([tiny_model, *films], killed, writer=writer)
    schema = TableRequest(model=tiny_model, out=killed).columns(read_card(tiny_model)).schema()
    assert read_part(killed, schema).equals(read_part(whole, schema))
    assert read_part(killed, schema)["path"].to_pylist() == list(map(str, films))


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [ACCELERATE, TORCHRUN], ids=["accelerate", "torchrun"])
def test_two_processes_share_all_sources_and_are_killed(
    tiny_model, films, site, tmp_path, in_environment, launcher
):
    in_environment()
    feather.write_feather(pa.table({"bytes": [films[0].read_bytes()]}), str(tmp_path / "t.arrow"))
    frames = frame_folders(tmp_path / "frames", 1)
    (tmp_path / "urls.txt").write_text("".join(f"{site.url}/{n}.mp4\n" for n in (0, 1, 2, 9)))
    shard = shard_of(tmp_path / "films.tar", films)
    words = [tiny_model, tmp_path / "urls.txt", shard, tmp_path / "t.arrow", frames]
    command = ["predict", *map(str, words), "--frame-rate", "12", *QUICK]
    out, alone = tmp_path / "out.jsonl", tmp_path / "alone.jsonl"
    kill(start_paused(WRITERS, 1, [*command, "--out", str(out)], launcher))
    run([*launcher, "-m", "videopipe", *command, "--out", str(out)])
    summary = json.loads((tmp_path / "out.jsonl.summary.json").read_text())
    assert summary["processes"] == 2
    assert summary["predicted_in_this_run"] < 10
    assert main([*command, "--out", str(alone)]) == 0
    assert out.read_bytes() == alone.read_bytes()
    statuses = [row["status"] for row in rows_of(out)]
    assert statuses == ["ok"] * 3 + ["missing"] + ["ok"] * 6
