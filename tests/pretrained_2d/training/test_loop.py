import json
import math
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from toy_training import CARD, Colours, network, normalize, run

from pretrained_2d.errors import TrainingError
from pretrained_2d.randomness import Sample
from pretrained_2d.training.learner import average_weights
from pretrained_2d.training.outputs.metrics_log import read_metrics
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.state import saved_states
from pretrained_2d.training.train import Phase, tiny_numbers_flushed, train


def records(out, kind):
    return [record for record in read_metrics(out / "metrics.jsonl") if record["kind"] == kind]


def test_it_learns_and_leaves_checkpoints(tmp_path):
    result = run(
        tmp_path,
        network(dropout=0.0),
        epochs=8,
        lr=0.03,
        mixup=0,
        cutmix=0,
        ema_decay=None,
        repeats=1,
    )
    losses = [record["loss"] for record in records(tmp_path, "train")]
    assert losses[-1] < losses[0] - 0.2
    assert result.best["accuracy"].value >= 0.75
    for folder in (tmp_path, tmp_path / "last", tmp_path / "best/loss"):
        assert (folder / "model.safetensors").is_file()
    card = json.loads((tmp_path / "config.json").read_text())
    assert card["provenance"]["epoch"] == result.best["accuracy"].epoch
    assert load_file(tmp_path / "model.safetensors").keys() == network().state_dict().keys()


def test_the_log_counts_every_sample_once(tmp_path):
    result = run(tmp_path, epochs=2)
    lines = records(tmp_path, "train")
    assert sum(line["samples"] for line in lines) == 2 * 40
    assert lines[-1]["step"] == result.steps == 10
    assert {
        "loss", "accuracy", "lr", "lr/weights", "lr/undecayed", "gradient_norm", "step_seconds",
        "data_seconds", "samples_per_second", "memory_bytes", "eta_seconds",
    } <= lines[0].keys()  # fmt: skip
    assert [record["epoch"] for record in records(tmp_path, "evaluation")] == [1, 2]
    assert len(saved_states(tmp_path / "state")) == 2


def test_progress_is_reported_after_every_step(tmp_path):
    """Two phases, of two epochs of three steps and of one epoch of five."""
    seen = []
    phases = [
        Phase(data=Colours(count), epochs=epochs, normalize=normalize)
        for count, epochs in ((12, 2), (20, 1))
    ]
    recipe = Recipe(
        epochs=3, batch_size=4, lr=0.01, schedule="constant", warmup_steps=1, workers=0,
        log_every_steps=1,
    )  # fmt: skip
    train(network(), phases, recipe=recipe, card=CARD, out=tmp_path, on_progress=seen.append)
    assert [(each.step, each.total_steps) for each in seen] == [(n, 11) for n in range(1, 12)]
    assert [each.epoch for each in seen] == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3]  # whole ones
    rates = [0.005, *[0.01] * 5, 0.005, *[0.01] * 4]
    assert [each.lr for each in seen] == pytest.approx(rates)
    lines = records(tmp_path, "train")  # a step has the mean of the line before it
    assert [each.loss for each in seen[1:]] == [line["loss"] for line in lines[:-1]]


@pytest.mark.parametrize("batch_size", [8, 7])
def test_accumulation_changes_memory_and_not_the_result(tmp_path, batch_size):
    plain = {
        "mixup": 0, "cutmix": 0, "batch_size": batch_size, "drop_last": False, "repeats": 1
    }  # fmt: skip
    finals = []
    for accumulation in (1, 3):
        model = network(dropout=0.0, batch_norm=False)
        out = tmp_path / str(accumulation)
        run(out, model, accumulation=accumulation, ema_decay=None, **plain)
        finals.append(torch.cat([parameter.flatten() for parameter in model.parameters()]))
        assert sum(line["samples"] for line in records(out, "train")) == 4 * 40
    assert torch.allclose(*finals, atol=1e-5)


def test_each_phase_warms_up_anew_and_begins_with_its_callback(tmp_path):
    begun = []
    phases = [
        Phase(data=Colours(), epochs=1, normalize=normalize, begin=lambda _: begun.append(1)),
        Phase(data=Colours(), epochs=1, normalize=normalize, begin=lambda _: begun.append(2)),
    ]
    recipe = Recipe(epochs=2, batch_size=8, warmup_steps=2, log_every_steps=1, workers=0, lr=0.01)
    from toy_training import CARD

    train(network(), phases, recipe=recipe, card=CARD, out=tmp_path)
    lrs = [line["lr"] for line in records(tmp_path, "train")]
    assert begun == [1, 2]
    assert lrs[:5] == lrs[5:]
    assert lrs[0] == pytest.approx(0.01 / 3)


def test_the_average_begins_as_the_mean_of_all_weights_so_far():
    model = nn.Linear(1, 1, bias=False)
    average = average_weights(model, decay=0.99)
    seen = []
    for step in range(1, 8):
        with torch.no_grad():
            model.weight.fill_(float(step))
        average.update(model, step=step)
        seen.append(float(step))
        assert average.module.weight.item() == pytest.approx(sum(seen) / len(seen), rel=1e-5)


class Exploding(nn.Module):
    def __init__(self, after: int) -> None:
        super().__init__()
        self.inner, self.calls, self.after = network(), 0, after

    def forward(self, signal):
        self.calls += 1
        return self.inner(signal) * (math.nan if self.calls > self.after else 1)


def test_a_loss_that_is_not_finite_stops_with_step_rate_and_last_state(tmp_path):
    settings = {"mixup": 0, "cutmix": 0, "accumulation": 1, "ema_decay": None, "evaluate": None}
    with pytest.raises(TrainingError) as error:
        run(tmp_path, Exploding(after=7), monitor=(), log_every_steps=50, **settings)
    message = str(error.value)
    assert "not finite at step 7 (learning rate: weights 0.00" in message
    assert f"last good training state: {tmp_path}/state/step_000000006." in message
    assert [path.name for path in saved_states(tmp_path / "state")][-1] == "step_000000006"


class LimitedMemory(nn.Module):
    """Raises an out-of-memory error above a number of samples."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.inner, self.most, self.largest = network(), most, 0

    def forward(self, signal):
        if len(signal) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB")
        self.largest = max(self.largest, len(signal)) if self.training else self.largest
        return self.inner(signal)


def test_a_batch_that_does_not_fit_names_the_setting_to_lower(tmp_path):
    with pytest.raises(
        TrainingError, match=r"a batch of 16 in 2 part.*accumulation to 4.*batch_size"
    ):
        run(tmp_path, LimitedMemory(4), batch_size=16)


def test_an_evaluation_that_does_not_fit_is_an_error(tmp_path):
    def greedy(_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB")

    with pytest.raises(TrainingError, match=r"batch of the evaluation.*test_batch_size"):
        run(tmp_path, evaluate=greedy)


def test_automatic_batches_halve_until_they_fit(tmp_path):
    model = LimitedMemory(12)
    buffers = [buffer.clone() for buffer in model.inner.buffers()]
    result = run(tmp_path, model, batch_size="auto", monitor=(), evaluate=None, epochs=2)
    assert (result.batch_size, model.largest) == (16, 8)
    assert result.steps == 2 * (40 // 16)
    again = run(tmp_path, LimitedMemory(3), batch_size="auto", monitor=(), evaluate=None, epochs=2)
    assert again.batch_size == 16, "a resumed run keeps the size it began with"
    assert buffers[2] == 0
    assert model.inner[1].num_batches_tracked == result.steps * 2, "trials leave no trace"


def test_not_even_two_samples_fit(tmp_path):
    with pytest.raises(TrainingError, match="not even a batch of 4 fits"):
        run(tmp_path, LimitedMemory(0), batch_size="auto")


def test_a_metric_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(TrainingError, match="monitor names acuracy, but the evaluation gives acc"):
        run(tmp_path, monitor=("acuracy",))


def test_other_settings_do_not_resume_a_run(tmp_path):
    run(tmp_path, epochs=2)
    with pytest.raises(TrainingError, match=r"lr was 0\.01 and is now 0\.5"):
        run(tmp_path, epochs=2, lr=0.5)


def test_a_finished_run_is_answered_from_its_state(tmp_path):
    first = run(tmp_path, epochs=2)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    model = network()
    assert run(tmp_path, model, epochs=2) == first
    assert read_metrics(tmp_path / "metrics.jsonl") == lines


class Counted(Colours):
    """Records which samples are read, and raises at a given step."""

    reads: ClassVar[list[Sample]] = []
    last: ClassVar[int] = 10**9

    def __getitem__(self, sample):
        if len(self.reads) >= Counted.last:
            raise KeyboardInterrupt
        self.reads.append(sample)
        return super().__getitem__(sample)


def test_a_resumed_epoch_reads_nothing_it_has_seen(tmp_path, monkeypatch):
    plain = {"mixup": 0, "cutmix": 0, "repeats": 1, "epochs": 2}
    run(tmp_path / "whole", data=Counted(), **plain)
    whole = list(Counted.reads)
    assert len(whole) == len(set(whole)) == 2 * 40

    Counted.reads.clear()
    monkeypatch.setattr(Counted, "last", 59)  # in the eighth step, after the state of the sixth
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken_off", data=Counted(), **plain)
    Counted.reads.clear()
    monkeypatch.setattr(Counted, "last", 10**9)
    run(tmp_path / "broken_off", data=Counted(), **plain)
    assert Counted.reads == whole[6 * 8 :]


def test_bf16_trains_and_gives_the_network_back_as_it_was(tmp_path):
    model = network()
    run(tmp_path, model, epochs=2, precision="bf16")
    assert model(torch.zeros(1, 3, 6, 6)).dtype == torch.float32
    assert "_original_forward" not in model.__dict__
    assert model[0].weight.dtype == torch.float32


def test_a_cpu_without_the_precision_says_what_to_use(tmp_path):
    class Incapable(LimitedMemory):
        def forward(self, signal):
            raise RuntimeError("could not create a primitive")

    with pytest.raises(TrainingError, match=r"precision is bf16.*use precision: fp32"):
        run(tmp_path, Incapable(8), precision="bf16")


def test_fp16_without_a_gpu_is_refused(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU; to run this test: CUDA_VISIBLE_DEVICES= pytest")
    with pytest.raises(TrainingError, match="precision is fp16, which needs a GPU"):
        run(tmp_path, precision="fp16")


def test_tensorboard_files_are_written_on_demand(tmp_path):
    pytest.importorskip("tensorboard", reason='to run this test: pip install "videopipe[dev]"')
    run(tmp_path, epochs=2, tensorboard=True)
    assert list((tmp_path / "logs").rglob("events.out.tfevents.*"))


@pytest.mark.slow
def test_workers_change_nothing(tmp_path):
    finals = []
    for workers in (0, 2):
        model = network()
        run(tmp_path / str(workers), model, epochs=2, workers=workers)
        finals.append(model.state_dict())
    assert all(torch.equal(finals[0][name], finals[1][name]) for name in finals[0])


def test_numbers_too_small_to_matter_are_zero_in_training_only():
    small = torch.tensor([1e-30])
    supported = torch.set_flush_denormal(False)
    with tiny_numbers_flushed():
        meanwhile = float(small * 1e-9)
    assert float(small * 1e-9) > 0
    assert (meanwhile == 0) == supported
