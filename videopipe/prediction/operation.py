"""Fill one table with the predictions of many videos: resumable, in one process or several."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import read_card
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.prediction.discovery import BackgroundListing, VideoListing
from videopipe.prediction.execution import local_run, ray_run
from videopipe.prediction.execution.shared_run import SharedRun, TableLock, join_run
from videopipe.prediction.request import RowMaker, TableRequest
from videopipe.prediction.resume import (
    PredictionPlan,
    begin_parts,
    commit,
    find_parts,
    make_plan,
    merged_path,
    summary_path,
)
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.merge import merge_parts
from videopipe.prediction.table.parts import explained, list_parts, part_writer, parts_folder
from videopipe.prediction.table.summary import TableSummary, summarise
from videopipe.scoring.engine import check_execution
from videopipe.system.progress import counted, detail_line, log_line
from videopipe.video.sources.addresses import is_in_one_process

# What predicts the videos of a plan and passes rows to a writer; returns where the time went.
ENGINES: dict[str, Callable[[local_run.PredictionWork], dict[str, Any]]] = {
    "local": local_run.predict_tasks,
    "ray": ray_run.predict_tasks,
}


def predict_table(
    request: TableRequest, paths: Iterable[Any], *, wait: bool = False
) -> TableSummary | None:
    """Fill the table `request.out`, resuming an earlier run that was interrupted; -> its summary.

    Under `accelerate launch` every process calls this. The last to finish merges the parts;
    the others return None, or, with `wait`, wait for it and return the summary too.
    """
    with explained(request.out.parent):
        return _predict_table(request, paths, wait)


def _predict_table(request: TableRequest, paths: Iterable[Any], wait: bool) -> TableSummary | None:
    began = time.time()
    format_of(request.out)
    if request.engine == "local":
        check_execution(request.scoring, request.execution)
    card = read_card(request.model)
    columns = request.columns(card)
    run = join_run(request.out)
    lock = TableLock(request.out.with_name(f".{request.out.name}.lock"), request.out)
    listing = VideoListing(paths, request.frame_rate)
    try:
        make = partial(_make_plan, request, card, columns, listing, run, lock)
        plan = make() if run.size == 1 else _shared_plan(make, listing, run)
        lock.share()
        in_progress = parts_folder(request.out).exists()  # else the table is complete already
        report: dict[str, Any] = {"began": began}
        if in_progress and plan.num_tasks != 0:
            report |= _predict(request, columns, plan, run)
        reports = run.finish(report)
        if reports is None:
            if not wait:
                return None
            run.await_end()
        elif in_progress:
            _complete(request, card, columns, plan, listing, reports)
            lock.clear()
            run.remove()
        else:
            log_line(f"{request.out} is complete: nothing is left to do")
            run.remove()
        found: TableSummary = json.loads(summary_path(request.out).read_text())
        return found
    finally:
        lock.release()


def _shared_plan(
    make: Callable[[], PredictionPlan], listing: VideoListing, run: SharedRun
) -> PredictionPlan:
    """The plan that the first process makes, in every process."""

    def make_once() -> dict[str, Any]:
        content = make().to_json()
        return content | {"problems": listing.problems, "skipped": dict(listing.skipped)}

    content = run.plan(make_once)
    listing.problems, listing.skipped = content["problems"], Counter(content["skipped"])
    return PredictionPlan.from_json(content)


def _make_plan(
    request: TableRequest,
    card: ModelCard,
    columns: RowMaker,
    listing: VideoListing,
    run: SharedRun,
    lock: TableLock,
) -> PredictionPlan:
    """Find the videos, and what is left to do."""
    out, identity = request.out, request.identity(card)
    schema = columns.schema()
    out.parent.mkdir(parents=True, exist_ok=True)
    lock.begin()
    run.remove_older()
    files = find_parts(out, identity, schema, overwrite=request.overwrite)
    if not files and run.size == 1 and request.engine == "local":
        background = BackgroundListing(listing, out.parent, request.limit)
        if not parts_folder(out).exists():
            begin_parts(out, identity)
        so_far = "" if background.complete else " so far"
        detail_line(f"{counted(len(background.order), 'video')} found{so_far}")
        return PredictionPlan(background.order, listing=background)
    videos = list(islice(listing, request.limit))
    if run.size > 1 or request.engine != "local":
        _refuse_own_objects(videos)
    plan = make_plan(
        out,
        identity,
        videos,
        schema,
        files,
        retry_failed=request.retry_failed,
        rows_per_window=columns.rows_per_window,
    )
    if plan.tasks:
        detail_line(f"{counted(len(videos), 'video')} found, {len(plan.tasks)} left to predict")
    return plan


def _refuse_own_objects(videos: Iterable[VideoRange]) -> None:
    """Raise DataError for objects that the processes which predict cannot read."""
    own = next((video.path for video in videos if is_in_one_process(video.path)), None)
    if own is not None:
        raise DataError(
            f"{own}: memory:// holds objects of one process, and here several processes predict; "
            "run in one process, or give files or URLs that all of them can read"
        )


def _predict(
    request: TableRequest, columns: RowMaker, plan: PredictionPlan, run: SharedRun
) -> dict[str, Any]:
    """Predict this process's share of the videos; -> where its time went."""
    name = f"{run.name}-{run.rank:04}"
    folder, suffix = parts_folder(request.out), request.out.suffix
    writer = part_writer(folder, name, columns.schema(), suffix)
    work = local_run.PredictionWork(request, columns, plan, run, writer)
    report = ENGINES[request.engine](work)
    writer.finish_part()
    return report


def _complete(
    request: TableRequest,
    card: ModelCard,
    columns: RowMaker,
    plan: PredictionPlan,
    listing: VideoListing,
    reports: list[dict[str, Any]],
) -> None:
    """Merge the parts, and write the summary."""
    merged = merged_path(request.out)
    files = list_parts(parts_folder(request.out), request.out.suffix)
    counts = merge_parts(files, plan.order, columns.schema(), merged, new_ids=plan.new_ids)
    summary = summarise(
        identity=request.identity(card),
        model=str(request.model),
        labels=card.labels,
        problems=listing.problems,
        skipped=listing.skipped,
        counts=counts,
        videos=len(plan.order),
        reports=reports,
    )
    commit(request.out, merged, summary)
