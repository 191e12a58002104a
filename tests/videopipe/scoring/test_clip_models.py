from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.models import load_model
from videopipe.scoring.batched_model import BatchedModel
from videopipe.scoring.clip_classifier import ClipClassifier, reordered
from videopipe.scoring.clip_models import ThreadedModel
from videopipe.scoring.settings import Execution, Scoring

CPU = torch.device("cpu")


def clips(count: int, num_frames: int = 4) -> list[Tensor]:
    return list(torch.randint(0, 256, (count, 3, num_frames, 32, 32), dtype=torch.uint8))


def outputs(model: ThreadedModel | BatchedModel, given: list[Tensor]) -> list[bytes]:
    answers = [model.submit(clip) for clip in given]
    found = [answer.result() for answer in answers]
    model.close()
    return [output.logits.tobytes() for output in found]


def test_on_a_cpu_bits_do_not_depend_on_threads_or_neighbours(tiny_model):
    network, card = load_model(tiny_model)
    given = clips(9)
    forward = ClipClassifier(network, card, Scoring())
    alone = [outputs(ThreadedModel(forward, 1), [clip])[0] for clip in given]
    assert len(set(alone)) == len(given)
    for threads in (1, 2, 5):
        assert outputs(ThreadedModel(forward, threads), given) == alone
        backwards = outputs(ThreadedModel(forward, threads), given[::-1])
        assert backwards[::-1] == alone


def test_threads_of_the_caller_are_left_alone(tiny_model):
    network, card = load_model(tiny_model)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model = ThreadedModel(ClipClassifier(network, card, Scoring()), 3)
        inside = model._threads.submit(torch.get_num_threads).result()
        model.close()
        assert torch.get_num_threads() == 2
        assert inside == 1
    finally:
        torch.set_num_threads(before)


def test_a_network_with_state_in_forward_is_safe_in_many_threads():
    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 3)
            self.note: Tensor | None = None

        def forward(self, signal: Tensor, rate: float = 1.0) -> Tensor:
            self.note = signal
            for _ in range(20):
                torch.rand(100, 100) @ torch.rand(100, 100)
            assert self.note is signal
            return self.head(signal.mean((2, 3, 4)))

    card = ModelCard(architecture="noting", ndim=3, preprocessing=Preprocessing(image_size=32))
    model = ThreadedModel(ClipClassifier(Noting().eval(), card, Scoring()), 4)
    assert len(outputs(model, clips(40))) == 40


def test_an_image_network_is_averaged_over_the_frames(tmp_path, make_tiny_model):
    network, card = load_model(make_tiny_model(tmp_path / "model", ndim=2))
    (clip,) = clips(1, num_frames=5)
    logits, embeddings = ClipClassifier(network, card, Scoring(embeddings=True))(clip[None])
    frames = card.preprocessing.normalize(clip.transpose(0, 1))
    with torch.no_grad():
        torch.testing.assert_close(logits[0], network(frames).mean(0))
        torch.testing.assert_close(embeddings[0], network.embed(frames).mean(0))


def test_embeddings_are_what_the_classifier_sees_and_leave_the_scores_alone(tiny_model):
    network, card = load_model(tiny_model)
    together = torch.stack(clips(3))
    plain, none = ClipClassifier(network, card, Scoring())(together)
    logits, embeddings = ClipClassifier(network, card, Scoring(embeddings=True))(together)
    assert none is None
    assert torch.equal(plain, logits)
    with torch.no_grad():
        seen = network.embed(card.preprocessing.normalize(together))
    torch.testing.assert_close(embeddings, seen)


class PrecisionRecorder(nn.Module):
    """Records the precision in which it runs."""

    def forward(self, signal: Tensor, rate: float = 1.0) -> Tensor:
        enabled = torch.is_autocast_enabled("cpu")
        self.seen = torch.get_autocast_dtype("cpu") if enabled else signal.dtype
        return signal.mean((2, 3, 4)).to(self.seen)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float)],
)
def test_precision_is_that_of_the_matrix_products(precision, dtype):
    network = PrecisionRecorder()
    card = ModelCard(architecture="looking", ndim=3, preprocessing=Preprocessing(image_size=32))
    logits, _ = ClipClassifier(network, card, Scoring(precision=precision))(torch.stack(clips(1)))
    assert network.seen == dtype
    assert logits.dtype == torch.float32


class LimitedMemory(nn.Module):
    """Runs out of memory when more than `room` clips come at once."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.batches = room, list[int]()

    def forward(self, signal: Tensor, rate: float = 1.0) -> Tensor:
        if len(signal) > self.room:
            raise torch.OutOfMemoryError("out of memory")
        self.batches.append(len(signal))
        return signal.mean((2, 3, 4))


def limited(room: int, batch_size: int) -> tuple[LimitedMemory, BatchedModel]:
    network = LimitedMemory(room)
    card = ModelCard(architecture="limited", ndim=3, preprocessing=Preprocessing(image_size=32))
    forward = ClipClassifier(network, card, Scoring())
    return network, BatchedModel(forward, CPU, Execution(batch_size=batch_size))


def test_out_of_memory_halves_the_batch_and_continues():
    given = clips(21)
    network, model = limited(room=3, batch_size=8)
    few = outputs(model, given)
    assert max(network.batches) <= 3
    assert sum(network.batches) == 21
    assert model.batch_size == 2
    network, model = limited(room=5, batch_size=8)
    assert outputs(model, given) == few
    assert (network.batches, model.batch_size) == ([4, 4, 4, 4, 4, 1], 4)
    network, model = limited(room=100, batch_size=8)
    assert outputs(model, given) == few
    assert network.batches == [8, 8, 5]


def test_a_clip_that_never_fits_is_an_error():
    _, model = limited(room=0, batch_size=4)
    with pytest.raises(torch.OutOfMemoryError):
        outputs(model, clips(2))


def test_outputs_may_be_requested_before_a_batch_is_full():
    network, model = limited(room=8, batch_size=8)
    first, second = clips(2)
    answer = model.submit(first)
    other = model.submit(second)
    assert not answer.done()
    assert answer.result().logits.shape == (3,)
    assert network.batches == [2]
    assert other.result().logits.shape == (3,)
    assert network.batches == [2]


def test_a_batch_that_does_not_fill_up_is_started_after_a_while(monkeypatch):
    network, model = limited(room=8, batch_size=8)
    answer = model.submit(clips(1)[0])
    model.flush_overdue()
    assert network.batches == []
    monkeypatch.setattr("videopipe.scoring.batched_model.LONGEST_WAIT_SECONDS", 0.0)
    model.flush_overdue()
    assert network.batches == [1]
    assert answer.done()


def test_batches_agree_with_clips_one_by_one(tiny_model):
    network, card = load_model(tiny_model)
    forward = ClipClassifier(network, card, replace(Scoring(), embeddings=True))
    given = clips(7)
    batched = BatchedModel(forward, CPU, Execution(batch_size=3))
    threaded = ThreadedModel(forward, 2)
    for left, right in [(batched.submit(clip), threaded.submit(clip)) for clip in given]:
        one, other = left.result(), right.result()
        torch.testing.assert_close(torch.tensor(one.logits), torch.tensor(other.logits))
        torch.testing.assert_close(torch.tensor(one.embedding), torch.tensor(other.embedding))
    threaded.close()


@pytest.mark.parametrize("order", ["shuffled", "reversed"])
def test_frames_in_another_order_are_the_same_frames_every_time(order):
    (clip,) = clips(1, num_frames=12)
    moved = reordered(clip, order)
    assert torch.equal(moved, reordered(clip.clone(), order))
    assert not torch.equal(moved, clip)
    frames = [frame.numpy().tobytes() for frame in clip.unbind(1)]
    assert sorted(frame.numpy().tobytes() for frame in moved.unbind(1)) == sorted(frames)


def test_a_network_without_time_mixing_ignores_the_order(make_tiny_model, tmp_path):
    network, card = load_model(make_tiny_model(tmp_path / "images", ndim=2))
    batch = torch.stack(clips(2))
    given, _ = ClipClassifier(network, card, Scoring())(batch)
    shuffled, _ = ClipClassifier(network, card, Scoring(frame_order="shuffled"))(batch)
    torch.testing.assert_close(given, shuffled)
