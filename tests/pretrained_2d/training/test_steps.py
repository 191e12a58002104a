"""What a step draws, in which mode it runs, and gradients that are not finite."""

import pytest
import torch
from torch import nn
from toy_training import network, run

from pretrained_2d.errors import TrainingError


class Drawing(nn.Module):
    """Notes what dropout would draw in each forward pass of training."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drawn = network(), list[float]()

    def forward(self, signal):
        if self.training:
            self.drawn.append(torch.rand(()).item())
        return self.inner(signal)


def test_dropout_depends_on_seed_step_and_part_and_on_nothing_else(tmp_path):
    plain = {"epochs": 2, "accumulation": 2, "ema_decay": None, "monitor": ()}
    drawn = {}
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        model = Drawing()
        run(tmp_path / name, model, seed=seed, **plain)
        drawn[name] = model.drawn
    assert len(drawn["first"]) == len(set(drawn["first"])) == 10 * 2, "steps × parts"
    assert drawn["first"] == drawn["again"]
    assert not set(drawn["first"]) & set(drawn["other"])


class Modes(Drawing):
    """Notes the mode of the network, and whether gradients are on, in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = list[tuple[bool, bool]]()

    def forward(self, signal):
        self.seen.append((self.training, torch.is_grad_enabled()))
        return super().forward(signal)


def test_steps_run_in_training_mode_and_evaluations_in_evaluation_mode(tmp_path):
    model = Modes().eval()  # as a checkpoint is loaded
    few = {"accumulation": 1, "ema_decay": None, "evaluate_every_epochs": 1, "epochs": 3}

    def look(network):
        assert network is model
        network(torch.zeros(1, 3, 6, 6))
        return {"loss": 1.0}

    run(tmp_path, model, evaluate=look, monitor=("loss",), **few)
    assert model.seen == 3 * [*5 * [(True, True)], (False, False)]
    assert not model.training


class Steep(nn.Module):
    """The output is finite everywhere, and after some passes its gradient is not."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.inner, self.calls, self.after = network(), 0, after

    def forward(self, signal):
        self.calls += 1
        output = self.inner(signal)
        return output + (0 * output).sqrt() if self.calls > self.after else output


def test_a_gradient_that_is_not_finite_stops_the_run_at_its_step(tmp_path):
    settings = {"mixup": 0, "cutmix": 0, "accumulation": 1, "ema_decay": None, "evaluate": None}
    with pytest.raises(TrainingError, match="not finite at step 4 "):
        run(tmp_path, Steep(after=4), monitor=(), log_every_steps=5, **settings)
