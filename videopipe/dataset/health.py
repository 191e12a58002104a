"""The health of the videos of a data set: what a check reports."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from videopipe.dataset.clips.sampling import REMAINDER_SECONDS
from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.video.decoder import EMPTY_REASON

HealthKind = Literal[
    "missing",
    "empty",
    "unreadable",
    "partial",
    "duplicate",
    "duplicate across splits",
    "too short",
    "variable rate",
    "rotated",
    "extra",
]
MEANINGS: dict[HealthKind, str] = {
    "missing": "in a list, but there is no such file; left out",
    "empty": "the file has no bytes; left out",
    "unreadable": "cannot be decoded; left out",
    "partial": "damaged; used as far as it can be decoded",
    "duplicate": "same content as another video of its split",
    "duplicate across splits": "same content in two splits; scores will be too high",
    "too short": "shorter than a clip; the last frame is repeated",
    "variable rate": "variable frame rate; frames are read by time, so this is no problem",
    "rotated": "stored rotated; frames are rotated upright",
    "extra": "not in any list; not used",
}
LOST: frozenset[HealthKind] = frozenset({"missing", "empty", "unreadable"})


@dataclass(frozen=True)
class HealthFinding:
    """One observation about one file."""

    kind: HealthKind
    path: str
    detail: str = ""


def health_findings(manifest: Manifest, clip_seconds: float) -> list[HealthFinding]:
    """All findings, the most serious first. Missing videos of the split "unused" are left out."""
    found = [
        finding for record in manifest.records for finding in _findings_of(record, clip_seconds)
    ]
    found += _duplicates(manifest.records)
    found += [HealthFinding("extra", path) for path in manifest.extra]
    order = list(MEANINGS)
    return sorted(found, key=lambda finding: (order.index(finding.kind), finding.path))


def count_kinds(findings: Iterable[HealthFinding]) -> Mapping[HealthKind, int]:
    """The number of findings of each kind, the most serious first."""
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in MEANINGS if counts[kind]}


def num_lost(findings: Iterable[HealthFinding]) -> int:
    """How many videos cannot be used for training or prediction."""
    return sum(finding.kind in LOST for finding in findings)


def _findings_of(record: VideoRecord, clip_seconds: float) -> Iterable[HealthFinding]:
    if record.status == "missing":
        if record.split != "unused":
            yield HealthFinding("missing", record.path, f"of split {record.split}")
        return
    if not record.usable:
        kind: HealthKind = "empty" if record.reason == EMPTY_REASON else "unreadable"
        yield HealthFinding(kind, record.path, record.reason)
        return
    if record.status == "partial":
        yield HealthFinding("partial", record.path, record.reason)
    start, end = record.span_seconds
    if end - start < clip_seconds - REMAINDER_SECONDS:
        yield HealthFinding("too short", record.path, f"{end - start:.2f} s")
    if record.variable_rate:
        yield HealthFinding("variable rate", record.path)
    if record.rotation_degrees:
        yield HealthFinding("rotated", record.path, f"by {record.rotation_degrees}°")


def _duplicates(records: Sequence[VideoRecord]) -> Iterable[HealthFinding]:
    """Different files with the same content; ranges of one file are not duplicates."""
    copies: dict[str, dict[str, VideoRecord]] = defaultdict(dict)
    for record in records:
        if record.content_id is not None:
            copies[record.content_id].setdefault(record.path, record)
    for same in copies.values():
        first, *others = same.values()
        for other in others:
            across = first.split != other.split and "unused" not in (first.split, other.split)
            kind: HealthKind = "duplicate across splits" if across else "duplicate"
            yield HealthFinding(kind, other.path, f"as {first.path}")
