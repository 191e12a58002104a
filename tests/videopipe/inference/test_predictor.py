import pytest

import videopipe
from videopipe.inference import Source

QUICK = {"device": "cpu", "workers": 1, "threads": 1}


def test_rows_come_without_files(tiny_model, video_folder, tmp_path):
    paths = [video_folder / "part0", tmp_path / "gone.mp4"]
    rows = list(videopipe.predict(tiny_model, paths, top_k=1, **QUICK))
    assert len(rows) == 6
    assert {row["status"] for row in rows} == {"ok", "error", "missing"}
    assert all(row["label_1"] in ("left", "right", "up", "down", None) for row in rows)
    assert "label_2" not in rows[0]


def test_a_predictor_keeps_its_model_and_its_workers(tiny_model, video_folder):
    video = str(video_folder / "part0" / "video00.mp4")
    with videopipe.Predictor(tiny_model, scores=True, embeddings=True, **QUICK) as predictor:
        assert predictor.card.labels == ("left", "right", "up", "down")
        (first,) = predictor.predict(video)
        (second,) = predictor.predict([video])
        (part,) = predictor.predict(Source(video, 0.0, 0.2))
        half = predictor.predict(video_folder)
        next(half)
        half.close()  # a consumer may stop early
        (third,) = predictor.predict(video)
    assert first == second == third
    assert len(first["scores"]) == 4
    assert part["end_seconds"] == pytest.approx(0.2)  # of the range, though a clip is longer


def test_unknown_keywords_are_named(tiny_model):
    with pytest.raises(TypeError, match="unknown keyword 'wokers'; known are top_k"):
        videopipe.Predictor(tiny_model, wokers=3)


def test_only_what_is_public_is_found():
    assert videopipe.__all__ == ["Predictor", "predict"]
    with pytest.raises(AttributeError, match="has no attribute 'predicct'"):
        videopipe.predicct  # noqa: B018
