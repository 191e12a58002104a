import json
import multiprocessing
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pretrained_2d.checkpoints.folder import read_card
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError, VideopipeError
from videopipe.evaluation.labelled import score_records
from videopipe.models import load_model
from videopipe.prediction.execution.shared_run import TableLock
from videopipe.prediction.operation import predict_table
from videopipe.prediction.operation import predict_table as run_in_process
from videopipe.prediction.request import TableRequest
from videopipe.prediction.resume import complete_commit, summary_path
from videopipe.prediction.table.parts import list_parts, parts_folder, read_part
from videopipe.prediction.table.table_format import as_rows
from videopipe.scoring.settings import Execution, Scoring

QUICK = Execution(device="cpu", workers=2, threads=2)


def request(model: Path, out: Path, **changes: Any) -> TableRequest:
    return TableRequest(**{"model": model, "out": out, "execution": QUICK} | changes)


def rows_of(asked: TableRequest, path: Path | None = None) -> list[dict[str, Any]]:
    schema = asked.columns(read_card(asked.model)).schema()
    return list(as_rows(read_part(path or asked.out, schema)))


@pytest.fixture(scope="module")
def expected(tiny_model, video_folder, tmp_path_factory) -> list[dict[str, Any]]:
    """The rows of a run that nothing interrupted."""
    asked = request(tiny_model, tmp_path_factory.mktemp("expected") / "all.parquet")
    summary = predict_table(asked, [video_folder])
    rows = rows_of(asked)
    assert summary["rows"] == len(rows) == 15
    assert summary["statuses"] == {"error": 3, "ok": 12}
    return rows


def test_one_row_per_video_in_order_and_a_summary(expected, tiny_model, video_folder, tmp_path):
    paths = [row["path"] for row in expected]
    assert paths == sorted(paths)
    assert len(set(paths)) == 15
    asked = request(tiny_model, tmp_path / "sub" / "all.csv", top_k=2, scores=True)
    summary = predict_table(asked, [video_folder])
    assert json.loads(summary_path(asked.out).read_text()) == summary
    assert (summary["videos"], summary["ok"], summary["not_ok"]) == (15, 12, 3)
    assert summary["labels"] == ["left", "right", "up", "down"]
    assert summary["where_the_time_went"]["bottleneck"]
    # No other files remain.
    names = sorted(path.name for path in asked.out.parent.iterdir())
    assert names == ["all.csv", "all.csv.summary.json"]
    first = rows_of(asked)[1]
    assert first["probability_1"] == expected[1]["probability_1"]
    assert len(first["scores"]) == 4


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_every_format_has_the_same_rows(expected, tiny_model, video_folder, tmp_path, suffix):
    asked = request(tiny_model, tmp_path / f"all{suffix}")
    predict_table(asked, [video_folder])
    assert rows_of(asked) == expected


def test_an_evaluation_has_the_same_scores_to_the_last_bit(tiny_model, video_folder, tmp_path):
    videos = sorted((video_folder / "part0").glob("video*.mp4"))
    asked = request(tiny_model, tmp_path / "all.parquet", scores=True)
    predict_table(asked, videos)
    predicted = np.array([row["scores"] for row in rows_of(asked)], np.float32)
    network, card = load_model(tiny_model)
    records = [VideoRecord(path=str(path), label=0) for path in videos]
    other = Execution(device="cpu", workers=1, threads=3)
    table = score_records(network, card, records, card.labels, scoring=Scoring(), execution=other)
    assert table.scores.astype(np.float32).tobytes() == predicted.tobytes()


def test_a_complete_table_is_left_alone_and_new_videos_are_added(
    tiny_model, video_folder, tmp_path, noisy_video
):
    folder = tmp_path / "videos"
    shutil.copytree(video_folder / "part0", folder)
    asked = request(tiny_model, tmp_path / "all.jsonl")
    predict_table(asked, [folder])
    before, stamp = rows_of(asked), asked.out.stat().st_mtime_ns
    assert predict_table(asked, [folder])["predicted_in_this_run"] == len(before)
    assert asked.out.stat().st_mtime_ns == stamp
    noisy_video(folder / "a_new_one.mp4", 99)
    (folder / "video03.mp4").unlink()  # removed: its row stays, at the end
    summary = predict_table(asked, [folder])
    assert summary["predicted_in_this_run"] == 1
    after = rows_of(asked)
    assert Path(after[0]["path"]).name == "a_new_one.mp4"
    gone = [row for row in before if row["path"].endswith("video03.mp4")]
    assert after[1:] == [row for row in before if row not in gone] + gone


def test_a_file_that_was_replaced_is_done_again(tiny_model, tmp_path, noisy_video):
    folder = tmp_path / "videos"
    for number in range(3):
        noisy_video(folder / f"{number}.mp4", number)
    asked = request(tiny_model, tmp_path / "all.csv")
    paths = [folder, folder / "late.mp4"]
    predict_table(asked, paths)
    before = rows_of(asked)
    assert [row["status"] for row in before] == ["ok", "ok", "ok", "missing"]
    time.sleep(0.02)
    noisy_video(folder / "1.mp4", 77)
    os.utime(folder / "2.mp4")  # touched, but the same bytes
    noisy_video(folder / "late.mp4", 78)
    assert predict_table(asked, paths)["predicted_in_this_run"] == 2
    after = {Path(row["path"]).name: row for row in rows_of(asked)}
    assert len(after) == 4
    assert after["0.mp4"] == before[0]
    assert after["2.mp4"] == before[2]
    assert after["1.mp4"]["content_id"] != before[1]["content_id"]
    assert after["late.mp4"]["status"] == "ok"


@pytest.mark.parametrize("windows", [False, True])
def test_videos_that_failed_are_tried_again_when_asked(tiny_model, tmp_path, noisy_video, windows):
    noisy_video(tmp_path / "videos/a.mp4", 1)
    (tmp_path / "videos/broken.mp4").write_text("never a film")
    scoring = Scoring(windows=windows)
    asked = request(tiny_model, tmp_path / "all.jsonl", scoring=scoring)
    summary = predict_table(asked, [tmp_path / "videos"])
    assert summary["statuses"].keys() == {"ok", "error"}
    rows = rows_of(asked)
    again = predict_table(replace(asked, retry_failed=True), [tmp_path / "videos"])
    assert again["predicted_in_this_run"] == 1  # the broken one; what is ok is not repeated
    assert rows_of(asked) == rows
    noisy_video(tmp_path / "videos/b.mp4", 2)
    more = predict_table(asked, [tmp_path / "videos"])
    assert more["predicted_in_this_run"] == 1  # the new one; the broken one is not tried again


def test_other_settings_and_other_models_are_refused_unless_overwritten(
    tiny_model, make_tiny_model, video_folder, tmp_path
):
    video = video_folder / "part0" / "video00.mp4"
    asked = request(tiny_model, tmp_path / "all.csv")
    predict_table(asked, [video])
    content = asked.out.read_bytes()
    other = request(tiny_model, asked.out, scoring=Scoring(clips=2))
    with pytest.raises(VideopipeError, match=r"settings\.clips: None then, 2 now"):
        predict_table(other, [video])
    retrained = request(make_tiny_model(tmp_path / "retrained", seed=1), asked.out)
    with pytest.raises(VideopipeError, match=r"model\.digest: '\w+' then, '\w+' now"):
        predict_table(retrained, [video])
    assert asked.out.read_bytes() == content
    assert not parts_folder(asked.out).exists()
    predict_table(request(retrained.model, asked.out, overwrite=True), [video])
    assert asked.out.read_bytes() != content
    assert len(rows_of(asked)) == 1


def test_unknown_files_and_other_videos_are_refused(tiny_model, video_folder, tmp_path):
    asked = request(tiny_model, tmp_path / "all.csv")
    asked.out.write_text("my,own,notes\n")
    with pytest.raises(VideopipeError, match="does not record how it was made"):
        predict_table(asked, [video_folder / "part0"])
    assert asked.out.read_text() == "my,own,notes\n"
    predict_table(request(tiny_model, asked.out, overwrite=True), [video_folder / "part0"])
    with pytest.raises(DataError, match="has rows of 5 videos that are not among those given now"):
        predict_table(asked, [video_folder / "part1"])
    summary = predict_table(asked, [video_folder / "part0", video_folder / "part1"])
    assert summary["videos"] == 10


def test_limit_and_windows(tiny_model, video_folder, tmp_path):
    asked = request(tiny_model, tmp_path / "all.jsonl", limit=4, scoring=Scoring(windows=True))
    predict_table(asked, [video_folder])
    rows = rows_of(asked)
    per_video = Counter(row["path"] for row in rows)
    assert len(per_video) == 4
    assert sum(row["last"] for row in rows) == 4
    for path in per_video:
        starts = [row["start_seconds"] for row in rows if row["path"] == path]
        assert starts[0] is None or starts == sorted(starts)


def test_two_runs_at_once_are_refused(tiny_model, video_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(TableLock.begin, "__defaults__", (0.1,))
    asked = request(tiny_model, tmp_path / "all.csv")
    other = TableLock(tmp_path / ".all.csv.lock", asked.out)
    other.begin()
    with pytest.raises(VideopipeError, match="another run is writing"):
        predict_table(asked, [video_folder])
    other.release()
    predict_table(asked, [video_folder / "part0"])


def test_an_interrupted_commit_is_completed(tiny_model, video_folder, tmp_path):
    asked = request(tiny_model, tmp_path / "all.csv")
    summary = predict_table(asked, [video_folder / "part0"])
    content, folder = asked.out.read_bytes(), parts_folder(asked.out)
    for renamed in (False, True):
        folder.mkdir()
        (folder / "_committed.json").write_text(json.dumps(summary))
        if not renamed:
            asked.out.rename(folder / "_merged.csv")
        summary_path(asked.out).unlink()
        complete_commit(asked.out)
        assert asked.out.read_bytes() == content
        assert json.loads(summary_path(asked.out).read_text()) == summary
        assert not folder.exists()


def test_a_folder_that_is_not_writable_is_named(tiny_model, video_folder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(VideopipeError, match="give an --out in a folder that you may write to"):
        predict_table(request(tiny_model, tmp_path / "file" / "all.csv"), [video_folder])


def finished_rows(asked: TableRequest) -> list[tuple[str, float | None]]:
    """What a killed run left, in parts and journals."""
    folder = parts_folder(asked.out)
    rows = [row for part in list_parts(folder, asked.out.suffix) for row in rows_of(asked, part)]
    for journal in folder.glob("*.journal"):
        part = journal.stem.removeprefix("_") + asked.out.suffix
        if not (folder / part).exists():
            lines = journal.read_bytes().split(b"\n")[:-1]
            rows += [json.loads(line) for line in lines]
    return [(row["id"], row["start_seconds"]) for row in rows]


def kill_and_repeat(
    asked: TableRequest, folder: Path, check: Callable[[], None], kills: int, longest: float
) -> None:
    """Kill runs at random moments, each resuming the last, until enough were killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["videopipe.prediction.operation", "videopipe.scoring.clips"])
    moments = random.Random(4)
    while kills:
        process = context.Process(target=run_in_process, args=(asked, [folder]))
        process.start()
        process.join(moments.uniform(0.05, longest))
        if process.exitcode is None:
            process.kill()
            process.join()
            kills -= 1
            if parts_folder(asked.out).exists():
                done = finished_rows(asked)
                assert len(set(done)) == len(done)
        else:
            assert process.exitcode == 0
            check()
            asked.out.unlink()
            summary_path(asked.out).unlink()
        process.close()
    predict_table(asked, [folder])
    check()


def test_killed_at_any_moment_and_repeated_gives_exactly_the_same_rows(
    expected, tiny_model, video_folder, tmp_path
):
    asked = request(tiny_model, tmp_path / "all.parquet")

    def check() -> None:
        assert rows_of(asked) == expected

    kill_and_repeat(asked, video_folder, check, kills=3, longest=1.5)


@pytest.mark.slow
def test_windows_killed_at_any_moment_and_repeated(tiny_model, video_folder, tmp_path):
    scoring = Scoring(windows=True, stride_seconds=0.1)
    whole = request(tiny_model, tmp_path / "whole.jsonl", scoring=scoring)
    predict_table(whole, [video_folder])
    asked = request(tiny_model, tmp_path / "all.jsonl", scoring=scoring)

    def check() -> None:
        assert asked.out.read_bytes() == whole.out.read_bytes()

    kill_and_repeat(asked, video_folder, check, kills=8, longest=1.5)
