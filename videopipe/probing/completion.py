"""Turning the rows that all processes wrote into a complete folder of features."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pretrained_2d.atomic import write_text
from pretrained_2d.checkpoints.folder import CARD, WEIGHTS
from videopipe.dataset.manifest import Manifest, VideoRecord, write_manifest
from videopipe.errors import DataError
from videopipe.probing.feature_file import (
    ABOUT,
    BACKBONE,
    FEATURES,
    TIMES,
    ViewLayout,
    read_features,
    read_journals,
    write_about,
    write_times,
)
from videopipe.probing.probe_config import FeaturesConfig
from videopipe.system.status import USED

REASONS_SHOWN = 3


def complete(
    config: FeaturesConfig, model: Path, manifest: Manifest, layout: ViewLayout, out: Path
) -> None:
    """Write everything beside the features, once all processes are done."""
    lines = read_journals(out)
    failed = sorted(index for index, line in lines.items() if line["status"] not in USED)
    if len(failed) > config.max_failed * len(lines):
        reasons = Counter(lines[index]["reason"] for index in failed).most_common(REASONS_SHOWN)
        shown = "; ".join(f"{reason} ({count})" for reason, count in reasons)
        raise DataError(
            f"{len(failed)} of {len(lines)} videos have no features, more than max_failed "
            f"({config.max_failed:g}): {shown}; first {manifest.records[failed[0]].path}. "
            "Correct the cause and run again (the others are kept), or raise max_failed"
        )
    records = [_with_status(record, lines[index]) for index, record in enumerate(manifest.records)]
    nothing = np.full((layout.views, layout.shape.steps), np.nan)
    write_times(out, (lines[index].get("times", nothing) for index in range(len(records))))
    write_manifest(out, replace(manifest, records=tuple(records)))
    (out / BACKBONE).mkdir(exist_ok=True)
    for name in (WEIGHTS, CARD):
        shutil.copyfile(model / name, out / BACKBONE / name)
    write_about(out, layout, [index for index in failed if manifest.records[index].usable])
    for journal in out.glob("journal-*.jsonl"):
        journal.unlink()


def _with_status(record: VideoRecord, line: dict[str, Any]) -> VideoRecord:
    """The record with what became of it here."""
    return replace(record, status=line["status"], reason=line["reason"] or record.reason)


def failed_videos(folder: Path) -> list[tuple[str, str]]:
    """Path and reason of the videos that failed here; not those that the manifest left out."""
    manifest = read_features(folder).manifest
    failed = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["failed"]
    return [(manifest.records[index].path, manifest.records[index].reason) for index in failed]


def keep_rows(folder: Path, out: Path) -> None:
    """Copy the rows of a complete folder in which videos failed; the others are made again."""
    found = read_features(folder)
    times = np.load(folder / TIMES)
    shutil.copyfile(folder / FEATURES, out / FEATURES)
    lines = [
        {"index": index, "status": r.status, "reason": r.reason, "times": times[index].tolist()}
        for index, r in enumerate(found.manifest.records)
        if r.status in USED
    ]
    write_text(out / "journal-kept.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))


def summarise(out: Path) -> dict[str, Any]:
    """The summary of a complete folder."""
    found = read_features(out)
    statuses = Counter(record.status for record in found.manifest.records)
    layout = found.layout
    return {
        "videos": len(found.manifest.records),
        "failed": sum(count for status, count in statuses.items() if status not in USED),
        "statuses": dict(statuses),
        "channels": layout.shape.channels,
        "steps": layout.shape.steps,
        "views": layout.views,
        "clips": f"{layout.num_frames} frames over {layout.clip_seconds:g} s",
        "megabytes": round(found.features.nbytes / 1e6, 1),
    }
