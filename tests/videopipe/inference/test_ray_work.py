from pathlib import Path

import pytest

from videopipe.errors import VideopipeError
from videopipe.inference import Execution, Scoring, TableRequest, predict_table
from videopipe.inference.local_work import Work
from videopipe.inference.planning import Plan
from videopipe.inference.processes import Team
from videopipe.inference.ray_work import do_work


@pytest.mark.slow
def test_two_ray_workers_give_the_same_rows(tiny_model, video_folder, tmp_path):
    ray = pytest.importorskip("ray")
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
    pytest.importorskip("ray")
    work = Work(
        model=tiny_model,
        scoring=Scoring(),
        execution=Execution(),
        columns=None,  # type: ignore[arg-type]  # it does not come so far
        plan=Plan([], []),
        team=Team("run", Path(tmp_path), 0, 2),
        writer=None,  # type: ignore[arg-type]
    )
    with pytest.raises(VideopipeError, match="shares the work out itself"):
        do_work(work)
