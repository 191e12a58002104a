import numpy as np
import pytest

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.scoring.clips import NO_FRAMES, ClipPlan, ClipTask, DecodedClip, VideoFacts
from videopipe.scoring.scores import ClipAverage, ClipOutput, softmax
from videopipe.scoring.settings import Scoring
from videopipe.scoring.video_accumulator import VideoAccumulator
from videopipe.system.pool import Failed


def accumulator(path: str, **settings: object) -> VideoAccumulator:
    scoring = Scoring(**settings)
    plan = ClipPlan.of(ModelCard(architecture="x", ndim=3), scoring)
    made = VideoAccumulator(ClipTask(7, VideoRange(path), plan), scoring)
    made.facts = VideoFacts("abc", 9.0)
    return made


def feed(made: VideoAccumulator, *starts: float) -> list[object]:
    found: list[object] = []
    for start in starts:
        clip = DecodedClip(start, start + 1, True, NO_FRAMES)
        found += made.take(clip, ClipOutput(np.array([start, 1.0], np.float32)))
    return found


def failed(made: VideoAccumulator, kind: str) -> Failed[ClipTask]:
    return Failed(made.task, "as it happens", kind)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.mp4").touch()
    return str(tmp_path / "a.mp4")


def test_the_mean_of_all_clips(path):
    made = accumulator(path)
    assert feed(made, 0.0, 1.0, 5.0) == []
    (scores,) = made.end(None)
    assert (scores.index, scores.status, scores.reason, scores.last) == (7, "ok", None, True)
    assert (scores.start_seconds, scores.end_seconds, scores.num_clips) == (0.0, 6.0, 3)
    assert (scores.content_id, scores.duration_seconds) == ("abc", 9.0)
    np.testing.assert_array_equal(scores.logits, np.float32([2.0, 1.0]))
    np.testing.assert_allclose(scores.probabilities, softmax(np.array([2.0, 1.0])), rtol=1e-7)


def test_a_decoding_error_after_some_clips_leaves_their_mean(path):
    made = accumulator(path)
    feed(made, 0.0, 1.0)
    (scores,) = made.end(failed(made, "error"))
    assert (scores.status, scores.reason, scores.num_clips) == ("partial", "as it happens", 2)
    assert scores.probabilities is not None


@pytest.mark.parametrize("kind", ["timeout", "crash", "memory"])
def test_clips_before_a_crash_are_not_averaged(path, kind):
    made = accumulator(path)
    feed(made, 0.0, 1.0)
    (scores,) = made.end(failed(made, kind))
    assert (scores.status, scores.reason, scores.num_clips) == (kind, "as it happens", 0)
    assert scores.probabilities is None


def test_a_file_that_has_vanished_is_missing(tmp_path):
    made = accumulator(str(tmp_path / "gone.mp4"))
    (scores,) = made.end(failed(made, "error"))
    assert scores.status == "missing"


def test_problems_of_a_file_that_decodes_are_reported(path):
    for windows in (False, True):
        made = accumulator(path, windows=windows)
        feed(made, 0.0)
        made.facts = VideoFacts("abc", 8.0, "2 broken packets")
        (scores,) = made.end(None)
        assert (scores.status, scores.reason) == ("ok", "2 broken packets")


def test_windows_before_a_failure_stay_and_the_failure_is_the_last_row(path):
    made = accumulator(path, windows=True)
    found = feed(made, 0.0, 1.0, 2.0)
    found += made.end(failed(made, "timeout"))
    assert [scores.status for scores in found] == ["ok", "ok", "ok", "timeout"]
    assert [scores.start_seconds for scores in found] == [0.0, 1.0, 2.0, 3.0]
    assert [scores.last for scores in found] == [False, False, False, True]


def test_a_failure_before_the_first_window_is_one_row(path):
    made = accumulator(path, windows=True)
    (scores,) = made.end(failed(made, "crash"))
    assert (scores.status, scores.start_seconds, scores.last) == ("crash", None, True)


def test_a_video_without_clips_is_an_error(path):
    (scores,) = accumulator(path).end(None)
    assert (scores.status, scores.num_clips) == ("error", 0)


def test_averages_of_logits_and_of_probabilities_differ():
    outputs = [ClipOutput(np.float32([0, 4])), ClipOutput(np.float32([1, 0]))]
    means = {}
    for kind in ("logits", "probabilities"):
        average = ClipAverage(kind)
        for output in outputs:
            average.add(output)
        means[kind] = average.means()["probabilities"]
    np.testing.assert_allclose(means["logits"], softmax(np.array([0.5, 2.0])), rtol=1e-6)
    expected = (softmax(np.array([0.0, 4.0])) + softmax(np.array([1.0, 0.0]))) / 2
    np.testing.assert_allclose(means["probabilities"], expected, rtol=1e-6)
