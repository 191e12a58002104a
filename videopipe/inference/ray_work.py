"""The videos of a plan, done by a Ray cluster: Ray Data, with actors that hold the model.

The driver hands out videos and writes rows as they come back, so that a run that is stopped goes on
exactly as a local one does. Every machine must see the model and the videos under the same paths.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopipe.errors import VideopipeError
from videopipe.inference.engine import Engine
from videopipe.inference.local_work import Watch, Work
from videopipe.inference.manifests import Source
from videopipe.inference.rows import Columns, make_row
from videopipe.inference.settings import Execution, Scoring
from videopipe.models import load_model
from videopipe.progress import progress

VIDEOS_PER_CALL = 16  # enough to keep an actor's decoders busy, few enough to share well
ROWS_PER_ANSWER = 256


class RayPredictor:
    """What an actor runs: takes videos, gives rows."""

    def __init__(
        self, model: str, scoring: Scoring, execution: Execution, columns: Columns
    ) -> None:
        network, card = load_model(Path(model))
        self.columns = columns
        self.engine = Engine(network, card, scoring, execution)

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, list[str]]]:
        """Rows as JSON, so that a column of nothing but nulls has no say in the types."""
        tasks = [json.loads(task) for task in batch["task"]]
        jobs = ((number, Source(*task[:3]), task[3]) for number, task in enumerate(tasks))
        rows: list[str] = []
        for scores in self.engine.run(jobs):
            rows.append(json.dumps(make_row(scores, self.columns)))
            if len(rows) == ROWS_PER_ANSWER:
                yield {"row": rows}
                rows = []
        yield {"row": rows}


def do_work(work: Work) -> dict[str, Any]:
    """Do the plan on the cluster that RAY_ADDRESS names, or on this machine."""
    ray = _ray()
    before = time.perf_counter()
    if work.team.size > 1:
        raise VideopipeError(
            "--engine ray shares the work out itself; start it without `accelerate launch`"
        )
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="warning")
    quiet = ray.data.DataContext.get_current()
    quiet.enable_progress_bars = False
    tasks = work.plan.to_json()["tasks"]
    answers = ray.data.from_items([{"task": json.dumps(task)} for task in tasks]).map_batches(
        RayPredictor,
        batch_size=min(VIDEOS_PER_CALL, max(1, len(tasks) // 8)),
        **_actors(ray, work),
    )
    done_before = len(work.plan.order) - len(tasks)
    with progress("predicting", total=len(work.plan.order), unit="videos") as bar:
        watch = Watch(bar, work.team, len(tasks), done_before)
        starting_seconds = time.perf_counter() - before
        for answer in answers.iter_rows():
            row = json.loads(answer["row"])
            work.writer.add(row)
            if row.get("last", True):
                watch.count(row["status"])
    return {
        "videos": watch.videos,
        "starting_seconds": starting_seconds,
        "seconds": time.perf_counter() - before,
    }


def _actors(ray: Any, work: Work) -> dict[str, Any]:
    """One actor per accelerator, with its share of the processors; without any, one per core."""
    resources = ray.cluster_resources()
    processors, accelerators = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
    execution = work.execution
    if accelerators and execution.device != "cpu":
        actors, cores = accelerators, max(1, processors // accelerators)
        share: dict[str, Any] = {"num_gpus": 1, "num_cpus": cores}
    else:
        cores = execution.workers or 1
        actors = max(1, processors // cores)
        share = {"num_cpus": cores}
    execution = replace(
        execution, workers=execution.workers or cores, threads=execution.threads or cores
    )
    arguments = (str(work.model.resolve()), work.scoring, execution, work.columns)
    pool = ray.data.ActorPoolStrategy(size=actors)
    return {"fn_constructor_args": arguments, "compute": pool, **share}


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise VideopipeError(
            "--engine ray needs Ray, which is not installed: pip install 'videopipe[ray]'"
        ) from None
    return ray
