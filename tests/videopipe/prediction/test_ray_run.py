from pathlib import Path

import pytest

from videopipe.errors import VideopipeError
from videopipe.prediction.local_run import PredictionWork
from videopipe.prediction.operation import predict_table
from videopipe.prediction.ray_run import predict_tasks
from videopipe.prediction.request import TableRequest
from videopipe.prediction.resume import PredictionPlan
from videopipe.prediction.shared_run import SharedRun
from videopipe.scoring.settings import Execution, Scoring

NEEDS_RAY = 'ray is not installed; to run this test: pip install "videopipe[ray]"'


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
    # It does not come to the columns and the writer.
    work = PredictionWork(request, None, PredictionPlan([], []), run, None)  # type: ignore[arg-type]
    with pytest.raises(VideopipeError, match="distributes the work itself"):
        predict_tasks(work)
