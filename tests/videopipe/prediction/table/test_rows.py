import numpy as np

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.prediction.table.rows import Columns, make_row, shortest
from videopipe.scoring.scores import VideoScores

LABELS = ("a", "b", "c")


def scored(*probabilities: float) -> VideoScores:
    values = np.array(probabilities, np.float32)
    return VideoScores(VideoRange("x.mp4"), 0, probabilities=values, embedding=values, num_clips=2)


def test_best_classes_come_first_and_equals_in_order_of_labels():
    row = make_row(scored(0.2, 0.6, 0.2), Columns(LABELS, top_k=3))
    assert [row["label_1"], row["label_2"], row["label_3"]] == ["b", "a", "c"]
    assert [row["probability_1"], row["probability_2"]] == [0.6, 0.2]
    np.testing.assert_allclose(row["entropy"], -(0.4 * np.log(0.2) + 0.6 * np.log(0.6)), rtol=1e-6)


def test_fewer_classes_than_asked_for():
    row = make_row(scored(0.2, 0.6, 0.2), Columns(LABELS, top_k=5))
    assert "label_3" in row
    assert "label_4" not in row


def test_without_labels_the_number_is_the_name():
    row = make_row(scored(0.2, 0.6, 0.2), Columns(None, top_k=5))
    assert [row[f"label_{rank}"] for rank in range(1, 6)] == ["1", "0", "2", None, None]


def test_every_row_has_every_column_of_the_schema_and_no_other():
    for columns in (Columns(LABELS), Columns(None, 2, scores=True, embeddings=True, windows=True)):
        failed = VideoScores(VideoRange("x.mp4"), 0, "error", "two\nlines \t of it")
        for scores in (scored(0.1, 0.2, 0.7), failed):
            assert list(make_row(scores, columns)) == columns.schema().names
        assert make_row(failed, columns)["error"] == "two lines of it"
    assert make_row(scored(0.1, 0.2, 0.7), columns)["scores"] == [0.1, 0.2, 0.7]


def test_certainty_has_no_entropy():
    assert make_row(scored(0.0, 1.0, 0.0), Columns(LABELS))["entropy"] == 0


def test_the_shortest_decimal_is_the_same_float32():
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert all(np.float32(shortest(value)) == value for value in values)
    assert shortest(np.float32(0.1)) == 0.1
