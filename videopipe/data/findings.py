"""What a check of a data set has to say about its videos."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from videopipe.data.decoder import EMPTY_REASON
from videopipe.data.manifest import Manifest, VideoRecord
from videopipe.data.sampling import REMAINDER_SECONDS

Kind = Literal[
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
MEANINGS: dict[Kind, str] = {
    "missing": "named by a list, not there; lost",
    "empty": "no bytes; lost",
    "unreadable": "cannot be decoded; lost",
    "partial": "damaged; used as far as it decodes",
    "duplicate": "the same bytes as another video of its split",
    "duplicate across splits": "the same bytes in two splits; scores will be too high",
    "too short": "shorter than a clip; its last frame is repeated",
    "variable rate": "frames of uneven length; read by time, so nothing is wrong",
    "rotated": "stored turned; it is set upright",
    "extra": "no list names it; not used",
}
LOST: frozenset[Kind] = frozenset({"missing", "empty", "unreadable"})


@dataclass(frozen=True)
class Finding:
    """One thing worth saying about one file."""

    kind: Kind
    path: str
    detail: str = ""


def find_all(manifest: Manifest, clip_seconds: float) -> list[Finding]:
    """Everything worth saying, the worst first. Videos marked unused may be missing."""
    found = [finding for record in manifest.records for finding in _of_one(record, clip_seconds)]
    found += _duplicates(manifest.records)
    found += [Finding("extra", path) for path in manifest.extra]
    order = list(MEANINGS)
    return sorted(found, key=lambda finding: (order.index(finding.kind), finding.path))


def counts_of(findings: Iterable[Finding]) -> Mapping[Kind, int]:
    """How often each kind was found, the worst first."""
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in MEANINGS if counts[kind]}


def num_lost(findings: Iterable[Finding]) -> int:
    """How many videos would be lost to a training or a prediction."""
    return sum(finding.kind in LOST for finding in findings)


def _of_one(record: VideoRecord, clip_seconds: float) -> Iterable[Finding]:
    if record.status == "missing":
        if record.split != "unused":
            yield Finding("missing", record.path, f"of split {record.split}")
        return
    if record.status == "failed":
        kind: Kind = "empty" if record.reason == EMPTY_REASON else "unreadable"
        yield Finding(kind, record.path, record.reason)
        return
    if record.status == "partial":
        yield Finding("partial", record.path, record.reason)
    start, end = record.span_seconds
    if end - start < clip_seconds - REMAINDER_SECONDS:
        yield Finding("too short", record.path, f"{end - start:.2f} s")
    if record.variable_rate:
        yield Finding("variable rate", record.path)
    if record.rotation_degrees:
        yield Finding("rotated", record.path, f"by {record.rotation_degrees}°")


def _duplicates(records: Sequence[VideoRecord]) -> Iterable[Finding]:
    """Different files with the same bytes; several stretches of one file are none."""
    copies: dict[str, dict[str, VideoRecord]] = defaultdict(dict)
    for record in records:
        if record.content_id is not None:
            copies[record.content_id].setdefault(record.path, record)
    for same in copies.values():
        first, *others = same.values()
        for other in others:
            across = first.split != other.split and "unused" not in (first.split, other.split)
            kind: Kind = "duplicate across splits" if across else "duplicate"
            yield Finding(kind, other.path, f"as {first.path}")
