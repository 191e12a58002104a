"""Everything that a training step changes: network, optimiser, average of the weights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, GradientAccumulationPlugin
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from pretrained_2d.errors import TrainingError
from pretrained_2d.training.optimiser import ParameterGroup, build_optimizer
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.recomputation import recompute_blocks, release_blocks

WAYS_TO_RUN = (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU)


class Learner:
    """Holds everything that a step changes."""

    def __init__(
        self,
        model: nn.Module,
        groups: Sequence[ParameterGroup],
        recipe: Recipe,
        accelerator: Accelerator,
    ) -> None:
        self.model, self.groups, self.accelerator = model, groups, accelerator
        self.limit = math.inf if recipe.clip_grad_norm is None else recipe.clip_grad_norm
        model.to(accelerator.device)
        self.ema = average_weights(model, recipe.ema_decay) if recipe.ema_decay else None
        if recipe.gradient_checkpointing and not recompute_blocks(model):
            raise TrainingError(
                "gradient_checkpointing: this network has no blocks, modules in a ModuleList or "
                "Sequential; leave it off, or raise accumulation to need less memory"
            )
        if recipe.compile:
            model.compile()
        self.wrapped, self.optimizer = accelerator.prepare(model, build_optimizer(groups, recipe))

    @property
    def kept(self) -> nn.Module:
        """The network that is evaluated and kept: the average of the weights, if there is one."""
        return self.model if self.ema is None else self.ema.module

    @property
    def networks(self) -> list[nn.Module]:
        """The network that is trained, and its average."""
        return [self.model] if self.ema is None else [self.model, self.ema.module]

    def update(self, factor: float, step: int) -> Tensor:
        """Change the weights by the gathered gradient at `factor` of the peak rates; its norm."""
        for settings, group in zip(self.optimizer.param_groups, self.groups, strict=True):
            settings["lr"] = group.lr * factor
        parameters = [parameter for group in self.groups for parameter in group.parameters]
        norm: Tensor = self.accelerator.clip_grad_norm_(parameters, self.limit)
        self.optimizer.step()
        # The fused AdamW leaves the version counters alone, by which layers that keep their
        # kernels in evaluation notice that a parameter has changed.
        increment_version(parameters)
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.ema.update(self.model, step=step + 1)
        return norm

    def state(self) -> dict[str, Any]:
        """Weights, optimiser, average and scaler."""
        scaler = self.accelerator.scaler
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.module.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load what `state` returned."""
        self.model.load_state_dict(state["model"])
        try:
            self.optimizer.load_state_dict(state["optimizer"])
        except ValueError as error:
            raise TrainingError(
                f"the saved optimiser has other groups of parameters than this version ({error}); "
                "finish the run with the version that began it, or train in another folder"
            ) from error
        if self.ema is not None:
            self.ema.module.load_state_dict(state["ema"])
        if self.accelerator.scaler is not None and state["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])

    def release(self) -> None:
        """Give the network back as it was: Accelerate wraps `forward` for mixed precision."""
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        release_blocks(self.model)
        self.model.eval()


def average_weights(model: nn.Module, decay: float) -> ModelEmaV3:
    """An average that starts as the plain mean and becomes exponential after 1 / (1 − decay) steps.

    With a fixed decay, the random initial weights would count for tens of thousands of steps.
    """
    return ModelEmaV3(model, decay=decay, use_warmup=True, warmup_gamma=1.0, warmup_power=1.0)


def start_processes(recipe: Recipe, out: Path) -> Accelerator:
    """Accelerate for this run: the processes it was launched with, the recipe's precision."""
    # Accelerate fixes the precision once per Python process; a pipeline trains several times.
    AcceleratorState._reset_state()
    try:
        accelerator = Accelerator(
            mixed_precision="no" if recipe.precision == "fp32" else recipe.precision,
            cpu=recipe.device == "cpu",
            # The loop divides by the batch itself, also where parts are unequal.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
            log_with="tensorboard" if recipe.tensorboard else None,
            project_dir=out / "logs" if recipe.tensorboard else None,
        )
    except ValueError as error:
        if "tensorboard" in str(error).lower():
            raise TrainingError(
                "tensorboard: true needs TensorBoard; pip install 'videopipe[tensorboard]'"
            ) from error
        raise
    if recipe.precision == "fp16" and accelerator.device.type == "cpu":
        # Accelerate would train in fp32 without a warning.
        raise TrainingError("precision is fp16, which needs a GPU; use bf16 or fp32 on a CPU")
    if accelerator.distributed_type not in WAYS_TO_RUN:
        raise TrainingError(
            f"accelerate was configured for {accelerator.distributed_type.value}; training runs in"
            " one process, on several GPUs (--multi_gpu) or in several CPU processes (--cpu)"
        )
    return accelerator


@contextmanager
def naming_the_precision(precision: str) -> Iterator[None]:
    """Explain the error of a CPU that has no half-precision kernel for a layer."""
    try:
        yield
    except RuntimeError as error:
        if precision == "fp32" or "could not create a primitive" not in str(error):
            raise
        raise TrainingError(
            f"precision is {precision}, and this CPU cannot compute a layer in it ({error});"
            " use precision: fp32 here"
        ) from error
