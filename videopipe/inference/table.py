"""A whole run: videos in, one table out, resumable, by one process or many."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pretrained_2d.card import ModelCard
from pretrained_2d.checkpoint import CARD, read_card
from videopipe.inference import local_work, ray_work
from videopipe.inference.formats import format_of
from videopipe.inference.merging import merge_parts
from videopipe.inference.parts import PartWriter, explained, list_parts, parts_folder
from videopipe.inference.planning import Plan, commit, make_plan, merged_path, summary_path
from videopipe.inference.processes import Membership, Team, join_team
from videopipe.inference.rows import Columns
from videopipe.inference.settings import Execution, Scoring
from videopipe.inference.sources import find_videos
from videopipe.inference.summary import Summary, summarise
from videopipe.progress import say

FORMAT_VERSION = 1  # raised when the same settings would give other rows
# What does the videos of a plan and hands rows to a writer; gives a report of where time went.
ENGINES: dict[str, Callable[[local_work.Work], dict[str, Any]]] = {
    "local": local_work.do_work,
    "ray": ray_work.do_work,
}


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """Everything about a table but the videos."""

    model: Path  # checkpoint folder
    out: Path  # .parquet, .csv or .jsonl
    scoring: Scoring = field(default_factory=Scoring)
    execution: Execution = field(default_factory=Execution)
    top_k: int = 5
    scores: bool = False  # a column with all probabilities
    limit: int | None = None  # only the first so many videos
    overwrite: bool = False
    retry_failed: bool = False  # rows of an earlier run that have no scores are made anew
    engine: Literal["local", "ray"] = "local"

    def __post_init__(self) -> None:
        for name in ("top_k", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; expected 1 or more")

    def columns(self, card: ModelCard) -> Columns:
        """What the table looks like."""
        return Columns(
            labels=card.labels,
            top_k=self.top_k,
            scores=self.scores,
            embeddings=self.scoring.embeddings,
            windows=self.scoring.windows,
        )

    def identity(self, card: ModelCard) -> dict[str, Any]:
        """What decides the rows; the card holds the digest of the weights."""
        digest = sha256((self.model / CARD).read_bytes()).hexdigest()
        return {
            "version": FORMAT_VERSION,
            "model": {"architecture": card.architecture, "digest": digest[:16]},
            "settings": asdict(self.scoring) | {"top_k": self.top_k, "scores": self.scores},
        }


def predict_table(
    request: TableRequest, paths: Iterable[Any], *, wait: bool = False
) -> Summary | None:
    """Fill the table `request.out`, going on where an earlier run was stopped; -> its summary.

    Under `accelerate launch` every process calls this. The last to finish puts the table together;
    the others get None, or, with `wait`, wait for it and get the summary too.
    """
    with explained(request.out.parent):
        return _predict_table(request, paths, wait)


def _predict_table(request: TableRequest, paths: Iterable[Any], wait: bool) -> Summary | None:
    began = time.time()
    format_of(request.out)
    card = read_card(request.model)
    columns = request.columns(card)
    team = join_team(request.out)
    membership = Membership(request.out.with_name(f".{request.out.name}.lock"), request.out)
    try:
        planned = team.plan(lambda: _prepare(request, card, paths, team, membership))
        membership.share()
        plan = Plan.from_json(planned["plan"])
        report = {"began": began}
        if plan.tasks:
            count = len(plan.order)
            say(f"{count} video{'s' * (count != 1)} found, {len(plan.tasks)} to predict")
        if planned["open"]:
            report |= _do(request, columns, plan, team)
        reports = team.finish(report)
        if reports is None:
            if not wait:
                return None
            team.await_end()
        elif planned["open"]:
            _complete(request, card, plan, planned["listing"], reports)
            membership.clear()
            team.disband()
        else:
            say(f"{request.out} is complete: nothing is left to do")
            team.disband()
        found: Summary = json.loads(summary_path(request.out).read_text())
        return found
    finally:
        membership.end()


def _prepare(
    request: TableRequest,
    card: ModelCard,
    paths: Iterable[Any],
    team: Team,
    membership: Membership,
) -> dict[str, Any]:
    """In the first process: find the videos, and see what is left to do."""
    request.out.parent.mkdir(parents=True, exist_ok=True)
    listing = find_videos(paths)
    membership.begin()
    team.clean_up()
    plan = make_plan(
        request.out,
        request.identity(card),
        listing.sources[: request.limit],
        request.columns(card).schema(),
        overwrite=request.overwrite,
        retry_failed=request.retry_failed,
    )
    return {
        "plan": plan.to_json(),
        "listing": {"problems": listing.problems, "skipped": dict(listing.skipped)},
        "open": parts_folder(request.out).exists(),  # else the table is complete already
    }


def _do(request: TableRequest, columns: Columns, plan: Plan, team: Team) -> dict[str, Any]:
    """This process's share of the videos."""
    if not plan.tasks:
        return {}
    name = f"{team.run}-{team.rank:04}"
    folder, suffix = parts_folder(request.out), request.out.suffix
    writer = PartWriter(folder, name, columns.schema(), suffix)
    work = local_work.Work(
        model=request.model,
        scoring=request.scoring,
        execution=request.execution,
        columns=columns,
        plan=plan,
        team=team,
        writer=writer,
    )
    report = ENGINES[request.engine](work)
    writer.finish_part()
    return report


def _complete(
    request: TableRequest,
    card: ModelCard,
    plan: Plan,
    listing: dict[str, Any],
    reports: list[dict[str, Any]],
) -> None:
    """Put the parts together, and tell what was done."""
    merged = merged_path(request.out)
    positions = {id_: position for position, id_ in enumerate(plan.order)}
    files = list_parts(parts_folder(request.out), request.out.suffix)
    counts = merge_parts(files, positions, request.columns(card).schema(), merged)
    summary = summarise(
        identity=request.identity(card),
        model=str(request.model),
        labels=card.labels,
        listing=listing,
        counts=counts,
        videos=len(plan.order),
        reports=reports,
    )
    commit(request.out, merged, summary)
