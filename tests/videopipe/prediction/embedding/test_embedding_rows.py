"""The rows of the frames of a window: their times, their vectors, the last one."""

import numpy as np
import pytest

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.prediction.embedding.embedding_rows import EmbeddingColumns, EmbeddingShape
from videopipe.scoring.scores import VideoScores


def rows(end_seconds: float, *, last: bool = True, largest: float = 8.0) -> list[dict]:
    """Rows of a window of four frames, 0.25 s each, that begins at 3 s."""
    shape = EmbeddingShape(width=2, steps=4, clip_seconds=1.0, dtype="float16", per="frame")
    vectors = np.linspace(1.0, largest, 8).astype(np.float32)
    scores = VideoScores(
        VideoRange("x.mp4"),
        0,
        start_seconds=3.0,
        end_seconds=end_seconds,
        logits=vectors,
        last=last,
    )
    return EmbeddingColumns(shape).rows(scores)


@pytest.mark.parametrize(
    ("end", "times"),
    [
        (4.0, [(3.0, 3.25), (3.25, 3.5), (3.5, 3.75), (3.75, 4.0)]),
        (3.6, [(3.0, 3.25), (3.25, 3.5), (3.5, 3.6)]),  # the video ends within the third frame
        (3.5 + 1e-9, [(3.0, 3.25), (3.25, 3.5)]),  # no row for a rounding error
        (3.1, [(3.0, 3.1)]),
    ],
)
def test_a_frame_has_the_times_that_it_stands_for(
    end: float, times: list[tuple[float, float]]
) -> None:
    found = rows(end)
    spans = [(row["start_seconds"], row["end_seconds"]) for row in found]
    np.testing.assert_allclose(spans, times, atol=1e-6)
    assert [row["embedding"].tolist() for row in found] == [
        [2 * n + 1, 2 * n + 2] for n in range(len(times))
    ]
    assert [row["last"] for row in found] == [False] * (len(times) - 1) + [True]
    assert not any(row["last"] for row in rows(end, last=False))


def test_numbers_beyond_the_format_are_an_error_of_the_window() -> None:
    (row,) = rows(4.0, largest=1e5)
    assert (row["status"], row["embedding"]) == ("error", None)
    assert "use --dtype float32" in row["error"]
