import dataclasses
import multiprocessing
import os
import time

import numpy as np
import pytest

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.models import load_model
from videopipe.prediction.score_journal import score_resumable
from videopipe.prediction.table.parts import list_parts
from videopipe.scoring.engine import Engine
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Execution, Scoring

IDENTITY = {"model": "tiny", "settings": {"clips": None}}
QUICK = Execution(device="cpu", workers=2, threads=2)


def bits(scores: VideoScores) -> dict[str, object]:
    fields = {field.name: getattr(scores, field.name) for field in dataclasses.fields(scores)}
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in fields.items()
    }


def by_index(results) -> list[dict[str, object]]:
    return [bits(scores) for scores in sorted(results, key=lambda scores: scores.index)]


class CountingEngine(Engine):
    """Counts the videos that are really decoded."""

    decoded = 0

    def score(self, videos):
        for scores in super().score(videos):
            self.decoded += 1
            yield scores


@pytest.fixture
def engine(tiny_model):
    network, card = load_model(tiny_model)
    with CountingEngine(network, card, Scoring(embeddings=True), QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def videos(video_folder):
    found = sorted(video_folder.rglob("*.*"))
    return [*map(str, found), str(found[1]), VideoRange(str(found[1]), 0.1, 0.3), "not there.mp4"]


def test_results_are_the_engines_and_a_second_call_decodes_nothing(engine, videos, tmp_path):
    expected = by_index(engine.score(videos))
    folder = tmp_path / "made" / "as needed"
    for _ in range(2):
        engine.decoded = 0
        results = by_index(score_resumable(engine, videos, folder, identity=IDENTITY))
        assert results == expected
    assert engine.decoded == 0
    results = by_index(score_resumable(engine, videos, folder, identity={"model": "other"}))
    assert results == expected
    assert engine.decoded == len(videos) - 1  # one is listed twice


def test_a_journal_that_was_damaged_is_used_as_far_as_it_can_be_read(engine, videos, tmp_path):
    expected = by_index(engine.score(videos))
    running = score_resumable(engine, videos, tmp_path, identity=IDENTITY)
    for _ in range(8):
        next(running)
    running.close()
    (journal,) = tmp_path.glob("_part-*.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) >= 6
    damaged = [lines[0], b"\0" * 4096 + b"\n", lines[1][:100] + b"\n", *lines[2:-1], lines[-1][:50]]
    journal.write_bytes(b"".join(damaged))
    engine.decoded = 0
    assert by_index(score_resumable(engine, videos, tmp_path, identity=IDENTITY)) == expected
    kept = len(lines) - 2
    assert engine.decoded == len(videos) - 1 - kept


def test_failed_videos_are_retried_on_request_and_changed_ones_always(
    engine, tmp_path, noisy_video
):
    good, bad = noisy_video(tmp_path / "a.mp4", 1), tmp_path / "b.mp4"
    bad.write_text("never a film")
    journal, late = tmp_path / "journal", tmp_path / "late.mp4"

    def run(**options) -> list[str]:
        engine.decoded = 0
        results = score_resumable(engine, [good, bad, late], journal, identity=IDENTITY, **options)
        return [scores["status"] for scores in by_index(results)]

    assert run() == ["ok", "error", "missing"]
    assert (run(), engine.decoded) == (["ok", "error", "missing"], 0)
    assert (run(retry_failed=True), engine.decoded) == (["ok", "error", "missing"], 2)
    time.sleep(0.02)
    noisy_video(late, 2)
    noisy_video(bad, 3)
    assert (run(), engine.decoded) == (["ok", "ok", "ok"], 2)
    assert (run(), engine.decoded) == (["ok", "ok", "ok"], 0)


def score_and_die(model, videos, folder, after):
    network, card = load_model(model)
    with Engine(network, card, Scoring(), QUICK) as engine:
        for number, _ in enumerate(score_resumable(engine, videos, folder, identity=IDENTITY)):
            if number == after:
                os.kill(os.getpid(), 9)


def test_processes_that_are_killed_lose_nothing_that_was_given_out(tiny_model, videos, tmp_path):
    context = multiprocessing.get_context("forkserver")
    for after in (3, 7):
        shares = videos[::2], videos[1::2]
        processes = [
            context.Process(target=score_and_die, args=(tiny_model, share, tmp_path, after))
            for share in shares
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == -9
    network, card = load_model(tiny_model)
    with CountingEngine(network, card, Scoring(), QUICK) as engine:
        expected = by_index(engine.score(videos))
        engine.decoded = 0
        assert by_index(score_resumable(engine, videos, tmp_path, identity=IDENTITY)) == expected
        assert engine.decoded <= len(videos) - 2 * 8
    assert list_parts(tmp_path, ".parquet")


def test_windows_are_refused(tiny_model, tmp_path):
    network, card = load_model(tiny_model)
    with (
        Engine(network, card, Scoring(windows=True), QUICK) as engine,
        pytest.raises(ValueError, match="whole videos"),
    ):
        next(score_resumable(engine, [], tmp_path, identity={}))
