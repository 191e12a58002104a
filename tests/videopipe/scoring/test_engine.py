import multiprocessing
import os
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest
import torch

from videopipe.dataset.clips.sampling import frame_times, sliding_windows
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.dataset.manifest import VideoRecord
from videopipe.models import load_model
from videopipe.scoring.engine import Engine
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Decoder, Execution, Scoring
from videopipe.video.video import BACKENDS, open_video

QUICK = Execution(device="cpu", workers=2, threads=2)


def score_videos(network, card, videos, *, scoring=None, execution):
    with Engine(network, card, scoring or Scoring(), execution) as engine:
        yield from engine.score(videos)


@pytest.fixture(scope="module")
def engine(tiny_model):
    """One for all tests that change nothing about it."""
    with Engine(*load_model(tiny_model), Scoring(), QUICK) as engine:
        yield engine


def by_index(results) -> list[VideoScores]:
    found = sorted(results, key=lambda scores: scores.index)
    assert [scores.index for scores in found] == list(range(len(found)))
    return found


def bits(scores: VideoScores) -> tuple[object, ...]:
    arrays = (scores.logits, scores.probabilities, scores.embedding)
    return (scores.source, scores.status, *(None if a is None else a.tobytes() for a in arrays))


def good_videos(folder: Path) -> list[Path]:
    return sorted(folder.rglob("video*.mp4"))


def test_a_plain_loop_gives_the_same_bits(engine, tiny_model, video_folder):
    network, card = load_model(tiny_model)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for scores in by_index(engine.score(good_videos(video_folder))):
            with open_video(scores.source.path) as video, torch.inference_mode():
                seconds = card.clip_seconds
                windows = sliding_windows(video.duration_seconds, seconds, seconds)
                logits = []
                for window in windows:
                    frames = video.frames_at(frame_times(window, card.num_frames))
                    clip = card.preprocessing.resize_and_crop(frames).transpose(0, 1).contiguous()
                    signal = card.preprocessing.normalize(clip[None])
                    logits.append(network(signal)[0].double().numpy())
            mean = np.sum(logits, axis=0) / len(windows)
            assert scores.num_clips == len(windows)
            assert scores.logits.tobytes() == mean.astype(np.float32).tobytes()
            odds = np.exp(mean - mean.max())
            np.testing.assert_allclose(scores.probabilities, odds / odds.sum(), rtol=1e-6)
    finally:
        torch.set_num_threads(threads)


def test_nothing_about_the_execution_changes_a_bit(engine, tiny_model, video_folder):
    videos = good_videos(video_folder)
    expected = [bits(scores) for scores in by_index(engine.score(videos))]
    assert len(set(expected)) == len(videos)
    shuffled = random.Random(0).sample(videos, len(videos))
    again = {scores.source.path: bits(scores) for scores in engine.score(shuffled)}
    assert [again[str(path)] for path in videos] == expected
    for workers, threads, batch_size in ((1, 1, 1), (3, 4, 7)):
        other = Execution(device="cpu", workers=workers, threads=threads, batch_size=batch_size)
        results = score_videos(*load_model(tiny_model), videos, execution=other)
        assert [bits(scores) for scores in by_index(results)] == expected


def test_what_cannot_be_decoded_has_a_status_and_a_reason(engine, tmp_path, video_folder):
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "film.mp4").mkdir()
    videos = [
        video_folder / "part0" / "empty.mp4",
        video_folder / "part1" / "text.avi",
        video_folder / "part2" / "truncated.mp4",
        tmp_path / "gone.mp4",
        tmp_path / "pipe.mp4",
        tmp_path / "film.mp4",
        video_folder / "part0" / "video00.mp4",
        VideoRange(str(video_folder / "part0" / "video00.mp4"), 100.0, 101.0),
    ]
    found = by_index(engine.score(videos))
    assert [scores.status for scores in found] == [
        "error", "error", "error", "missing", "error", "error", "ok", "error",
    ]  # fmt: skip
    assert "empty" in found[0].reason
    assert "cannot be opened" in found[1].reason
    assert found[3].reason == "no such file"
    assert "not a file" in found[4].reason
    assert "the range begins at 100 s, the video ends at" in found[7].reason
    assert all(scores.probabilities is None for scores in found if scores.status != "ok")
    assert found[1].content_id is not None
    assert found[6].probabilities.sum() == pytest.approx(1)


def test_a_video_that_was_cut_off_is_used_as_far_as_it_goes(engine, tmp_path, noisy_video):
    whole = noisy_video(tmp_path / "whole.avi", 1, num_frames=150).read_bytes()
    (tmp_path / "cut.avi").write_bytes(whole[: len(whole) // 3])
    (scores,) = engine.score([tmp_path / "cut.avi"])
    assert scores.status == "ok"
    # FFmpeg 8 reports an error at the end; for later versions only the header shows the cut.
    assert "cut off" in scores.reason or "the header promises 150 frames" in scores.reason
    assert 0 < scores.num_clips < 20
    assert scores.probabilities is not None


def test_a_range_of_a_video_is_scored_without_the_rest(engine, tmp_path, noisy_video):
    path = str(noisy_video(tmp_path / "video.mp4", 2, num_frames=60))
    records = [
        VideoRecord(path=path, start_seconds=1.0, end_seconds=2.0),
        VideoRecord(path=path),
        VideoRecord(path=path, start_seconds=3.5),
    ]
    ranged, whole, tail = by_index(engine.score(records))
    assert (ranged.start_seconds, ranged.end_seconds, ranged.num_clips) == (1.0, 2.0, 2)
    assert (whole.start_seconds, whole.end_seconds, whole.num_clips) == (0.0, 4.0, 8)
    assert (tail.start_seconds, tail.end_seconds, tail.num_clips) == (3.5, 4.0, 1)
    assert bits(ranged)[2] != bits(whole)[2]


def test_a_decoder_without_progress_times_out(tiny_model, tmp_path, noisy_video):
    """No decoder answers within a microsecond."""
    execution = Execution(device="cpu", workers=1, threads=1, timeout_seconds=1e-6)
    videos = [noisy_video(tmp_path / f"{n}.mp4", n) for n in range(2)]
    found = by_index(score_videos(*load_model(tiny_model), videos, execution=execution))
    assert [scores.status for scores in found] == ["timeout", "timeout"]
    assert "no answer within" in found[0].reason


def test_a_decoding_process_that_dies_is_replaced(tiny_model, video_folder):
    psutil = pytest.importorskip("psutil", reason='to run this test: pip install "videopipe[dev]"')
    videos = good_videos(video_folder)
    execution = Execution(device="cpu", workers=1, threads=1)
    others = {process.pid for process in multiprocessing.active_children()}
    with Engine(*load_model(tiny_model), Scoring(), execution) as engine:
        before = {bits(scores)[0].path: bits(scores) for scores in engine.score(videos)}
        results = engine.score(videos)
        found = [next(results)]
        (worker,) = [p for p in multiprocessing.active_children() if p.pid not in others]
        psutil.Process(worker.pid).kill()
        found += results
        (other,) = [p for p in multiprocessing.active_children() if p.pid not in others]
        assert other.pid != worker.pid
    found = by_index(found)
    assert len(found) == len(videos)
    assert [scores.status for scores in found].count("crash") <= 1  # the one it was at
    for scores in found:
        if scores.status == "ok":
            assert bits(scores) == before[scores.source.path]
        else:
            assert "ended by SIGKILL" in scores.reason


def test_windows_are_results_of_their_own(tiny_model, tmp_path, noisy_video):
    path = noisy_video(tmp_path / "video.mp4", 5, num_frames=45)
    scoring = Scoring(windows=True, stride_seconds=0.2)
    videos = [path, tmp_path / "gone.mp4"]
    with Engine(*load_model(tiny_model), scoring, QUICK) as engine:
        results = list(engine.score(videos))
        later = list(engine.run([(0, VideoRange(str(path)), 9)]))
    windows = [scores for scores in results if scores.index == 0]
    starts = [scores.start_seconds for scores in windows]
    assert starts == pytest.approx([*np.arange(0, 2.5, 0.2), 2.5])
    assert [scores.end_seconds for scores in windows] == pytest.approx(np.array(starts) + 0.5)
    assert [scores.last for scores in windows] == [False] * 13 + [True]
    assert {scores.num_clips for scores in windows} == {1}
    # What was done before is not done again, and the rest is the same.
    assert [bits(scores) for scores in later] == [bits(scores) for scores in windows[9:]]
    (gone,) = (scores for scores in results if scores.index == 1)
    assert (gone.status, gone.last) == ("missing", True)
    # A window alone, as a range, is the same clip.
    ranges = [VideoRange(str(path), scores.start_seconds, scores.end_seconds) for scores in windows]
    with Engine(*load_model(tiny_model), Scoring(), QUICK) as engine:
        alone = by_index(engine.score(ranges))
    assert [scores.num_clips for scores in alone] == [1] * 14
    for one, other in zip(windows, alone, strict=True):
        np.testing.assert_allclose(one.logits, other.logits, rtol=1e-4, atol=1e-4)


def test_clips_crops_and_averages(tiny_model, tmp_path, noisy_video):
    path = noisy_video(tmp_path / "video.mp4", 6, num_frames=60)

    def score(**settings: object) -> VideoScores:
        (scores,) = score_videos(
            *load_model(tiny_model), [path], scoring=Scoring(**settings), execution=QUICK
        )
        return scores

    assert score(clips=3).num_clips == 3
    three = score(clips=2, crops=3, average="probabilities", embeddings=True)
    assert three.num_clips == 6
    assert three.embedding.shape == (16,)
    assert three.probabilities.sum() == pytest.approx(1, abs=1e-6)
    assert not np.array_equal(three.logits, score(clips=2).logits)
    assert np.array_equal(score(clips=2, crops=3).logits, three.logits)


def test_numbers_that_are_not_finite_are_an_error(tiny_model, tmp_path, noisy_video):
    network, card = load_model(tiny_model)
    with torch.no_grad():
        network.head.bias.fill_(float("nan"))
    (scores,) = score_videos(network, card, [noisy_video(tmp_path / "a.mp4", 0)], execution=QUICK)
    assert scores.status == "error"
    assert "not finite" in scores.reason
    assert scores.probabilities is None


def test_the_decoders_that_can_be_set_are_those_there_are():
    assert get_args(Decoder) == ("auto", *BACKENDS)
    with pytest.raises(ValueError, match="decoder is 'nope'; expected auto, av, torchcodec"):
        Scoring(decoder="nope")


def long_claim(path: Path, seconds: int) -> Path:
    """Two frames, the second one `seconds` after the first: a small file with a long duration."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=1)
        stream.pix_fmt = "yuvj420p"
        stream.width, stream.height = 32, 32
        for moment in (0, seconds):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            frame.pts, frame.time_base = moment, Fraction(1, 1)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_a_budget_of_clips_and_of_time_per_video(tiny_model, tmp_path, noisy_video):
    long = long_claim(tmp_path / "long.mkv", 1_000_000)
    assert long.stat().st_size < 5000
    videos = [long, noisy_video(tmp_path / "short.mp4", 1, 15)]
    network, card = load_model(tiny_model)
    with Engine(network, card, Scoring(), QUICK) as engine:  # 2,000,000 clips of half a second
        claimed, short = by_index(engine.score(videos))
    assert (claimed.status, short.status) == ("too_long", "ok")
    assert claimed.logits is None
    assert "clips; at most 100000 are computed (max_clips_per_video)" in claimed.reason
    # Clips that are counted do not depend on the duration.
    with Engine(network, card, Scoring(clips=3), QUICK) as engine:
        claimed, short = by_index(engine.score(videos))
    assert (claimed.status, short.status) == ("ok", "ok")
    nothing = replace(QUICK, max_seconds_per_video=1e-6)
    for windows in (False, True):
        with Engine(network, card, Scoring(windows=windows), nothing) as engine:
            (slow,) = engine.score(videos[1:])
        assert slow.status == "too_long"
        assert "decoding took more than 1e-06 s" in slow.reason
