"""Which clips of a video, or of a range of it, are scored."""

from dataclasses import replace

import pytest

from pretrained_2d.checkpoints.card import Preprocessing
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DecodeError
from videopipe.scoring.clips import ClipPlan

PLAN = ClipPlan(
    num_frames=4, clip_seconds=2.0, preprocessing=Preprocessing(), clips=None,
    stride_seconds=2.0, crops=1, decoder="auto",
)  # fmt: skip
WHOLE, PART = VideoRange("x.mp4"), VideoRange("x.mp4", 3.0, 8.0)
CASES = {  # plan, source, starts of the clips of a video of 9 s
    "windows": (PLAN, WHOLE, [0, 2, 4, 6, 7]),
    "windows of a range": (PLAN, PART, [3, 5, 6]),
    "overlapping": (replace(PLAN, stride_seconds=1.5), PART, [3, 4.5, 6]),
    "spread": (replace(PLAN, clips=3), PART, [3, 4.5, 6]),
    "one": (replace(PLAN, clips=1), PART, [4.5]),
    "adjacent": (replace(PLAN, adjacent=True), PART, [3, 5, 7]),
    "beyond the end": (PLAN, VideoRange("x.mp4", 5.0, 20.0), [5, 7]),
    "open range": (PLAN, VideoRange("x.mp4", 5.0), [5, 7]),
}


@pytest.mark.parametrize("case", CASES)
def test_clips_of_a_range_begin_and_end_inside(case: str) -> None:
    plan, source, starts = CASES[case]
    clips = plan.windows(source, 9.0)
    assert [clip.start_seconds for clip in clips] == pytest.approx(starts)
    assert [clip.duration_seconds for clip in clips] == pytest.approx([2.0] * len(starts))
    assert abs(plan.num_clips(source, 9.0) - len(starts)) <= (plan.stride_seconds < 2)


def test_a_range_after_the_end_is_refused() -> None:
    with pytest.raises(DecodeError, match="the range begins at 9 s, the video ends at 9 s"):
        PLAN.windows(VideoRange("x.mp4", 9.0), 9.0)
