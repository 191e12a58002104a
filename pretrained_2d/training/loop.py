"""The training loop, which resumes from the newest saved state."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.randomness import Sample, derive_seed
from pretrained_2d.training.batches import Shares, Span, lay_out, load_batches
from pretrained_2d.training.efficiency.allocator import keeping_freed_memory
from pretrained_2d.training.efficiency.depthwise import DepthwiseByProducts
from pretrained_2d.training.efficiency.memory import (
    EVALUATION_BATCH_TOO_LARGE,
    largest_that_fits,
    leaving_no_trace,
    out_of_memory_as,
    training_batch_too_large,
)
from pretrained_2d.training.learner import Learner, naming_the_precision, start_processes
from pretrained_2d.training.mixup import BatchMixing
from pretrained_2d.training.objective import OBJECTIVES
from pretrained_2d.training.optimiser import (
    ParameterGroup,
    learning_rate_factor,
    parameter_groups,
)
from pretrained_2d.training.outputs.best import improved, publish, save_network
from pretrained_2d.training.outputs.training_report import TrainingReport
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.state import (
    load_newest,
    remove_partial_states,
    require_same_settings,
    save_state,
)
from pretrained_2d.training.train import Best, Evaluate, Phase, TrainingProgress, TrainingResult


class TrainingRun:
    """See `training.train`. Every method is called in every process."""

    def __init__(
        self,
        model: nn.Module,
        phases: Sequence[Phase],
        *,
        recipe: Recipe,
        card: ModelCard,
        out: Path,
        objective: str,
        evaluate: Evaluate | None,
        monitor: tuple[str, ...],
        groups: Sequence[ParameterGroup] | None,
        on_progress: Callable[[TrainingProgress], None] | None,
    ) -> None:
        self.recipe, self.card, self.out = recipe, card, out
        self.evaluate, self.monitor, self.on_progress = evaluate, monitor, on_progress
        out.mkdir(parents=True, exist_ok=True)
        self.accelerator = start_processes(recipe, out)
        self.shares = Shares(
            self.accelerator.process_index, self.accelerator.num_processes, recipe.accumulation
        )
        self.objective = OBJECTIVES[objective](recipe.label_smoothing)
        self.mixing = BatchMixing(recipe, card, self.shares) if recipe.mixes else None
        groups = list(groups if groups is not None else parameter_groups(model, recipe))
        self.learner = Learner(model, groups, recipe, self.accelerator)
        self.report = TrainingReport(self.accelerator, recipe, groups, out)
        self.step, self.factor = 0, 0.0
        self.metrics: dict[str, float] = {}
        self.best: dict[str, Best] = {}
        self.batch_size = self._resume() or self._choose_batch_size(phases[0])
        if self.mixing is not None:
            self.mixing.require_even_parts(self.batch_size)
        self.spans = lay_out(phases, recipe, self.batch_size)
        self.card = phases[-1].card or card

    def complete(self) -> TrainingResult:
        """Train from the current step to the end and write the checkpoint to `out`."""
        if self.recipe.tensorboard:
            self.accelerator.init_trackers("training")
        with (
            out_of_memory_as(training_batch_too_large(self.batch_size, self.recipe.accumulation)),
            naming_the_precision(self.recipe.precision),
            keeping_freed_memory(self.accelerator.device),
        ):
            for span in self.spans:
                if self.step < span.end:
                    self._train_span(span)
        # end_training() would destroy the process group, which later stages need.
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self._publish()
        self.learner.release()
        return TrainingResult(
            self.step, self.batch_size, self.report.seconds, self.metrics, self.best
        )

    def _train_span(self, span: Span) -> None:
        self.card = span.phase.card or self.card
        if span.phase.begin is not None:
            for network in self.learner.networks:
                span.phase.begin(network)
        batches = load_batches(
            span,
            self.shares,
            self.recipe,
            start=self.step,
            pin_memory=self.accelerator.device.type == "cuda",
        )
        self.learner.trained.train()
        save_every = self.recipe.checkpoint_every_steps
        while self.step < span.end:
            gradient_norm = self._take_step(span, batches)
            epochs, rest = divmod(self.step - span.first_step, span.plan.steps_per_epoch)
            epoch = span.first_epoch + epochs + bool(rest)  # counted from 1
            if not rest or self.step % self.recipe.log_every_steps == 0:
                self.report.write_training(
                    self.step, epoch, self.factor, gradient_norm, self.spans[-1].end - self.step
                )
            is_due = epoch % self.recipe.evaluate_every_epochs == 0 or self.step == span.end
            if not rest and is_due and self.evaluate is not None:
                self._evaluate(self.evaluate, epoch)
            if not rest or (save_every is not None and self.step % save_every == 0):
                self._save()

    def _take_step(self, span: Span, batches: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
        began, waited = time.perf_counter(), 0.0
        step_in_phase = self.step - span.first_step
        self.factor = self._learning_rate_factor(span, step_in_phase)
        size = span.plan.size(step_in_phase % span.plan.steps_per_epoch)
        counts = [len(part) for part in self.shares.of(list(range(size)))]
        for index, count in enumerate(counts):
            asked = time.perf_counter()
            signal, targets = next(batches)
            waited += time.perf_counter() - asked
            is_last = index == len(counts) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(self.learner.wrapped):
                self._backward(span.phase, signal, targets, index, count, size)
        gradient_norm = self.learner.update(self.factor, self.step)
        if self.recipe.precision != "fp16":  # with fp16 the scaler skips such a step
            self.report.note_finiteness(gradient_norm, self.step)
        self.step += 1
        self.report.add_step(time.perf_counter() - began, waited)
        if self.on_progress is not None and self.accelerator.is_main_process:
            self.on_progress(self._progress(span))
        return gradient_norm

    def _learning_rate_factor(self, span: Span, step_in_phase: int) -> float:
        return learning_rate_factor(
            step_in_phase,
            recipe=self.recipe,
            steps_per_epoch=span.plan.steps_per_epoch,
            phase_epochs=span.phase.epochs,
            total_epochs=sum(other.phase.epochs for other in self.spans),
        )

    def _backward(
        self, phase: Phase, signal: Tensor, targets: Tensor, index: int, count: int, size: int
    ) -> None:
        """Add the gradient of one part: `count` of the `size` samples of the global batch."""
        device = self.accelerator.device
        signal = phase.normalize(signal.to(device, non_blocking=True))
        targets = targets.to(device, non_blocking=True)
        if self.mixing is not None:
            signal, targets = self.mixing(signal, targets, self.step)
        part = self.shares.rank * self.shares.accumulation + index
        torch.manual_seed(derive_seed(self.recipe.seed, "model", self.step, part))
        # The backward pass too: with gradient checkpointing it calls the network again.
        with nullcontext() if self.recipe.compile else DepthwiseByProducts():
            logits = self.learner(signal) if phase.rate == 1 else self.learner(signal, phase.rate)
            loss = self.objective.loss(logits, targets)[:count].sum()
            # DDP and FSDP compute the mean over processes; the gradient of the batch is their sum.
            self.accelerator.backward(loss * (self.shares.processes / size))
        with torch.no_grad():
            correct = self.objective.correct(logits, targets)[:count].sum()
            self.report.add_samples(loss.detach(), correct, count, self.step)

    def _progress(self, span: Span) -> TrainingProgress:
        total = self.spans[-1].end
        return TrainingProgress(
            step=self.step,
            total_steps=total,
            epoch=span.first_epoch + (self.step - span.first_step) // span.plan.steps_per_epoch,
            loss=self.report.last_loss,
            lr=self.recipe.lr * self.factor,
            eta_seconds=self.report.eta_seconds(total - self.step),
        )

    def _evaluate(self, evaluate: Evaluate, epoch: int) -> None:
        with (
            self.learner.evaluated() as network,
            torch.no_grad(),
            self.accelerator.autocast(),
            out_of_memory_as(EVALUATION_BATCH_TOO_LARGE),
        ):
            self.metrics = dict(evaluate(network))
        self.report.write_evaluation(self.step, epoch, self.metrics)
        for name in improved(self.metrics, self.best, self.monitor):
            self.best[name] = Best(self.metrics[name], self.step, epoch)
            if self.accelerator.is_main_process:
                folder = self.out / "best" / name
                save_network(folder, network, self.card, self.metrics, epoch)

    def _publish(self) -> None:
        self.learner.gather()
        if self.accelerator.is_main_process:
            epochs = sum(span.phase.epochs for span in self.spans)
            save_network(self.out / "last", self.learner.kept, self.card, self.metrics, epochs)
            chosen = f"best/{self.monitor[0]}" if self.best and self.monitor else "last"
            publish(self.out / chosen, self.out)
        self.accelerator.wait_for_everyone()

    def _save(self) -> None:
        report = self.report.state(self.factor)  # raises before a diverged run is saved
        learned = self.learner.state()
        if self.accelerator.is_main_process:
            state = {
                **learned,
                "settings": self.recipe.result_settings(),
                "batch_size": self.batch_size,
                "report": report,
                "metrics": self.metrics,
                "best": {name: asdict(best) for name, best in self.best.items()},
            }
            folder = self.out / "state"
            path = save_state(folder, self.step, state, keep_last=self.recipe.keep_last)
            self.report.last_state = path
        self.accelerator.wait_for_everyone()

    def _resume(self) -> int | None:
        """Load the newest state in `out`; the batch size of that run, None without a state."""
        if self.accelerator.is_main_process:
            remove_partial_states(self.out / "state")
        self.accelerator.wait_for_everyone()
        found = load_newest(self.out / "state")
        if found is None:
            return None
        path, state = found
        saved = self.recipe.defaults_of_added() | state["settings"]
        require_same_settings(path, saved, self.recipe.result_settings())
        self.learner.restore(state)
        self.report.restore(state["report"], path)
        self.step, self.metrics = state["step"], state["metrics"]
        self.best = {name: Best(**best) for name, best in state["best"].items()}
        return int(state["batch_size"])

    def _choose_batch_size(self, phase: Phase) -> int:
        """The recipe's, or for `auto` the largest power of two that fits in every process."""
        if self.recipe.batch_size != "auto":
            return self.recipe.batch_size
        parts = self.shares.processes * self.shares.accumulation

        def attempt(batch_size: int) -> None:
            signal, target = phase.data[Sample(0)]
            part = batch_size // parts
            signals = torch.stack([signal] * part)
            targets = torch.stack([torch.as_tensor(target)] * part)
            self._backward(phase, signals, targets, 0, part, part)

        if phase.begin is not None:
            phase.begin(self.learner.trained)
        self.learner.trained.train()
        # Processes with less memory make more attempts, so none of them may wait for others.
        with leaving_no_trace(self.learner.model), self.learner.alone():
            fits = largest_that_fits(len(phase.data), 2 * parts, attempt)
        self.report.clear()
        everyone = self.accelerator.gather(torch.tensor([fits], device=self.accelerator.device))
        return int(everyone.min())
