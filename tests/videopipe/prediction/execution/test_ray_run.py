import json
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.processes import ENVIRONMENT, kill, run, start_paused
from tests.servers import web_site
from videopipe.errors import VideopipeError
from videopipe.prediction.execution.local_run import PredictionWork
from videopipe.prediction.execution.ray_run import predict_tasks
from videopipe.prediction.execution.shared_run import SharedRun
from videopipe.prediction.operation import predict_table
from videopipe.prediction.request import TableRequest
from videopipe.prediction.resume import PredictionPlan
from videopipe.scoring.settings import Execution, Scoring

NEEDS_RAY = 'ray is not installed; to run this test: pip install "videopipe[ray]"'


@pytest.fixture(autouse=True)
def usual_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers get the priority of other programs; else they hardly run beside them."""
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setattr("tests.processes.ENVIRONMENT", {**ENVIRONMENT, "RAY_worker_niceness": "0"})


@pytest.mark.slow
def test_two_ray_workers_give_the_same_rows(tiny_model, video_folder, tmp_path):
    ray = pytest.importorskip("ray", reason=NEEDS_RAY)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        tables = []
        for engine in ("ray", "local"):
            asked = TableRequest(
                model=tiny_model,
                out=tmp_path / f"{engine}.csv",
                scoring=Scoring(windows=True, stride_seconds=0.2),
                execution=Execution(device="cpu"),
                engine=engine,
            )
            summary = predict_table(asked, [video_folder])
            assert summary["predicted_in_this_run"] == 15
            tables.append(asked.out.read_bytes())
        assert tables[0] == tables[1]
    finally:
        ray.shutdown()


def test_ray_is_not_started_by_many_processes(tiny_model, tmp_path):
    pytest.importorskip("ray", reason=NEEDS_RAY)
    request = TableRequest(model=tiny_model, out=tmp_path / "x.csv", engine="ray")
    run = SharedRun("run", Path(tmp_path), 0, 2)
    # The error is raised before columns and writer are used.
    work = PredictionWork(request, None, PredictionPlan([], []), run, None)  # type: ignore[arg-type]
    with pytest.raises(VideopipeError, match="distributes the work itself"):
        predict_tasks(work)


@pytest.mark.slow
def test_ray_takes_urls_shards_and_bytes(tiny_model, noisy_video, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason=NEEDS_RAY)
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    films = [noisy_video(tmp_path / f"{number}.mp4", number) for number in range(3)]
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(films[1], "inside.mp4")
    pq.write_table(pa.table({"bytes": [films[2].read_bytes()]}), tmp_path / "table.parquet")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        with web_site() as site:
            site.files = {"film.mp4": films[0].read_bytes()}
            sources = [f"{site.url}/film.mp4", f"{site.url}/gone.mp4"]
            sources += [str(tmp_path / "shard.tar"), str(tmp_path / "table.parquet")]
            tables = []
            for engine in ("ray", "local"):
                asked = TableRequest(
                    model=tiny_model,
                    out=tmp_path / f"{engine}.jsonl",
                    execution=Execution(device="cpu", workers=1, threads=1),
                    engine=engine,
                )
                predict_table(asked, sources)
                tables.append(asked.out.read_text())
    finally:
        ray.shutdown()
    assert tables[0] == tables[1]
    statuses = [json.loads(line)["status"] for line in tables[0].splitlines()]
    assert statuses == ["ok", "missing", "ok", "ok"]


@pytest.mark.slow
def test_a_killed_ray_run_resumes(tiny_model, noisy_video, tmp_path):
    pytest.importorskip("ray", reason=NEEDS_RAY)
    films = [noisy_video(tmp_path / "films" / f"{number}.mp4", number) for number in range(3)]
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(films[0], "inside.mp4")
    with web_site() as site:
        site.files = {"film.mp4": films[1].read_bytes()}
        out = tmp_path / "out.jsonl"
        command = [
            "predict", str(tiny_model), str(tmp_path / "films"), str(tmp_path / "shard.tar"),
            f"{site.url}/film.mp4", "--engine", "ray", "--workers", "1", "--device", "cpu",
            "--out", str(out),
        ]  # fmt: skip
        kill(start_paused("videopipe.prediction.table.parts:PartWriter.add", 2, command))
        assert not out.exists()
        run([sys.executable, "-m", "videopipe", *command])
    summary = json.loads(out.with_name(f"{out.name}.summary.json").read_text())
    assert (summary["videos"], summary["predicted_in_this_run"]) == (5, 3)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["status"] for row in rows] == ["ok"] * 5
    assert [row["content_id"] for row in rows[3:]] == [row["content_id"] for row in rows[:2]]
