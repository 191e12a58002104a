"""Predict the videos of a plan on a Ray cluster: Ray Data, with actors that hold the model.

The driver distributes videos and writes rows as they come back, so an interrupted run resumes as a
local one does. Every machine must see the model and the videos under the same paths.
"""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from videopipe.errors import VideopipeError, first_line
from videopipe.prediction.execution.local_run import PredictionWork, RunProgress
from videopipe.prediction.request import RowMaker, TableRequest
from videopipe.prediction.resume import VideoTask
from videopipe.prediction.table.rows import PredictionRow
from videopipe.scoring.settings import Execution

VIDEOS_PER_CALL = 16  # enough to keep an actor's decoders busy, few enough for an even load
ROWS_PER_RESULT = 256
START_ATTEMPTS = 3  # Ray gives up after 30 seconds, too few on a busy machine


class RayPredictor:
    """What an actor runs: videos in, rows out."""

    def __init__(self, request: TableRequest, columns: RowMaker, execution: Execution) -> None:
        self.columns = columns
        self.engine = request.make_engine(execution)

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, list[Any]]]:
        """Rows as JSON: Arrow cannot infer the type of a column that is null throughout.

        One item holds all rows of a result; their embeddings are the bytes beside it.
        """
        tasks = [VideoTask.from_json(json.loads(task)) for task in batch["task"]]
        videos = ((number, task.video, task.windows_done) for number, task in enumerate(tasks))
        items: list[tuple[str, bytes]] = []
        for scores in self.engine.run(videos):
            items.append(pack_rows(self.columns.rows(scores), last=scores.last))
            if len(items) == ROWS_PER_RESULT:
                yield _batch(items)
                items = []
        yield _batch(items)


def _batch(items: list[tuple[str, bytes]]) -> dict[str, list[Any]]:
    return {"rows": [text for text, _ in items], "vectors": [vectors for _, vectors in items]}


def pack_rows(rows: list[PredictionRow], *, last: bool) -> tuple[str, bytes]:
    """Rows as JSON, and their embeddings as bytes; `last`: the video has no more rows."""
    vectors = [row.get("embedding") for row in rows]
    there = [vector for vector in vectors if vector is not None]
    about = {
        "rows": [{key: row[key] for key in row if key != "embedding"} for row in rows],
        "sizes": [None if vector is None else len(vector) for vector in vectors],
        "dtype": str(there[0].dtype) if there else None,
        "last": last,
    }
    return json.dumps(about), b"".join(vector.tobytes() for vector in there)


def unpack_rows(text: str, vectors: bytes) -> tuple[list[PredictionRow], bool]:
    """The rows that `pack_rows` took, and whether they are the last of their video."""
    about = json.loads(text)
    rows: list[PredictionRow] = about["rows"]
    values = np.frombuffer(vectors, about["dtype"]) if about["dtype"] else np.empty(0)
    start = 0
    for row, size in zip(rows, about["sizes"], strict=True):
        row["embedding"] = None if size is None else values[start : start + size]
        start += size or 0
    return rows, about["last"]


def predict_tasks(work: PredictionWork) -> dict[str, Any]:
    """Predict on the cluster that RAY_ADDRESS names, or on this machine."""
    ray = _ray()
    before = time.perf_counter()
    if work.run.size > 1:
        raise VideopipeError(
            "--engine ray distributes the work itself; start it without `accelerate launch`"
        )
    if not ray.is_initialized():
        _start(ray)
    quiet = ray.data.DataContext.get_current()
    quiet.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    tasks = [task.to_json() for task in work.plan.tasks]
    results = ray.data.from_items([{"task": json.dumps(task)} for task in tasks]).map_batches(
        RayPredictor,
        batch_size=min(VIDEOS_PER_CALL, max(1, len(tasks) // 8)),
        **_actors(ray, work),
    )
    with RunProgress(work.plan, work.run) as shown:
        starting_seconds = time.perf_counter() - before
        for result in results.iter_rows():
            rows, last = unpack_rows(result["rows"], result["vectors"])
            work.writer.add(*rows)
            if last:
                shown.count(rows[-1]["status"])
    return {
        "videos": shown.videos,
        "starting_seconds": starting_seconds,
        "seconds": time.perf_counter() - before,
    }


def _start(ray: Any) -> None:
    """Connect to the cluster of RAY_ADDRESS, or start Ray on this machine."""
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            ray.init(log_to_driver=False, logging_level="warning")
            return
        except Exception as error:
            ray.shutdown()
            if attempt == START_ATTEMPTS:
                raise VideopipeError(
                    f"Ray does not start ({first_line(error)}; {attempt} attempts); start it "
                    "beforehand (ray start --head) and set RAY_ADDRESS=auto, or check the "
                    "RAY_ADDRESS that is set"
                ) from error


def _actors(ray: Any, work: PredictionWork) -> dict[str, Any]:
    """One actor per accelerator, with its share of the processors; without any, one per core."""
    resources = ray.cluster_resources()
    processors, accelerators = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
    request, execution = work.request, work.request.execution
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
    request = replace(request, model=request.model.resolve())
    arguments = (request, work.columns, execution)
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
