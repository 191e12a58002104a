"""Inspection, evaluation and prediction use the same statuses."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow.parquet as pq

from videopipe.dataset.inspection import inspect_records
from videopipe.dataset.manifest import Manifest, VideoRecord, read_manifest, write_manifest
from videopipe.evaluation.labelled import score_records
from videopipe.evaluation.score_table import read_scores, write_scores
from videopipe.models import load_model
from videopipe.prediction.predictor import Predictor
from videopipe.scoring.settings import Execution, Scoring
from videopipe.system.status import VideoStatus

QUICK = {"device": "cpu", "workers": 1, "threads": 1}


def test_every_operation_gives_a_file_the_same_status(tiny_model, noisy_video, tmp_path):
    good, broken = noisy_video(tmp_path / "good.mp4", 1), tmp_path / "broken.mp4"
    broken.write_text("not a video")
    paths = [str(good), str(broken)]
    records = [VideoRecord(path=path, label=0) for path in paths]
    inspected = inspect_records(records, depth="header", workers=1, timeout_seconds=60)
    statuses = {record.path: record.status for record in inspected}
    with Predictor(tiny_model, **QUICK) as predictor:
        assert {row["path"]: row["status"] for row in predictor.predict(paths)} == statuses
    network, card = load_model(tiny_model)
    table = score_records(
        network, card, records, card.labels, scoring=Scoring(), execution=Execution(**QUICK)
    )
    assert dict(zip(table.paths, table.statuses, strict=True)) == statuses
    assert statuses == {str(good): "ok", str(broken): "error"}
    assert set(statuses.values()) <= set(get_args(VideoStatus))


def test_manifests_and_scores_of_earlier_versions_are_read(tmp_path):
    manifest = Manifest(labels=("a",), records=(VideoRecord(path="x.mp4", label=0),), root=tmp_path)
    write_manifest(tmp_path, manifest)
    file = tmp_path / "manifest.jsonl"
    row = json.loads(file.read_text())
    file.write_text(json.dumps(row | {"status": "failed", "reason": "no frames"}) + "\n")
    (record,) = read_manifest(tmp_path).records
    assert (record.status, record.usable) == ("error", False)


def test_tables_of_scores_of_earlier_versions_are_read(tmp_path: Path):
    from videopipe.evaluation.score_table import SCORES_FILE, ScoreTable

    scores = np.array([[0.25, 0.75], [np.nan, np.nan]], np.float32)
    numbers = np.zeros(2, np.int64)
    table = ScoreTable(("a", "b"), ("x", "y"), numbers, numbers, scores, ("", "gone"))
    assert table.statuses == ("ok", "error")
    write_scores(tmp_path / SCORES_FILE, table)
    stored = pq.read_table(tmp_path / SCORES_FILE)
    place = stored.schema.get_field_index("status")
    older = stored.set_column(place, "status", [["ok", "failed"]])
    pq.write_table(older, tmp_path / SCORES_FILE)
    assert read_scores(tmp_path).statuses == ("ok", "error")
