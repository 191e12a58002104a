"""Everything that a training step changes: network, optimiser, average of the weights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, GradientAccumulationPlugin
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from pretrained_2d.errors import TrainingError
from pretrained_2d.training.efficiency.recomputation import recompute_blocks, release_blocks
from pretrained_2d.training.efficiency.sharding import (
    copy_parts,
    copy_whole,
    divided_state,
    sharded_copy,
    whole,
    whole_state,
)
from pretrained_2d.training.optimiser import ParameterGroup, build_optimizer
from pretrained_2d.training.recipe import Recipe

WAYS_TO_RUN = (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU)


class Learner:
    """Holds everything that a step changes.

    model: the network as it was given. trained: what steps change, which is the same network or,
    where parameters are sharded, a copy of it; `gather` then brings its weights back.
    """

    def __init__(
        self,
        model: nn.Module,
        groups: Sequence[ParameterGroup],
        recipe: Recipe,
        accelerator: Accelerator,
    ) -> None:
        self.model, self.groups, self.accelerator = model, groups, accelerator
        self.limit = math.inf if recipe.clip_grad_norm is None else recipe.clip_grad_norm
        self.sharded = recipe.sharding == "full" and accelerator.num_processes > 1
        model.to("cpu" if self.sharded else accelerator.device)
        self.ema = average_weights(model, recipe.ema_decay) if recipe.ema_decay else None
        self.trained = sharded_copy(model, accelerator.device) if self.sharded else model
        if recipe.gradient_checkpointing and not recompute_blocks(self.trained):
            raise TrainingError(
                "gradient_checkpointing: this network has no blocks, modules in a ModuleList or "
                "Sequential; leave it off, or raise accumulation to need less memory"
            )
        if recipe.compile:
            self.trained.compile()
        optimizer = build_optimizer(self._groups_of(self.trained), recipe)
        if self.sharded:
            self.wrapped, self.optimizer = self.trained, accelerator.prepare(optimizer)
        else:
            self.wrapped, self.optimizer = accelerator.prepare(model, optimizer)

    def _groups_of(self, network: nn.Module) -> list[ParameterGroup]:
        """The groups with the parameters of this network in place of those of the same names."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        mine = dict(network.named_parameters())
        return [
            replace(group, parameters=tuple(mine[names[id(each)]] for each in group.parameters))
            for group in self.groups
        ]

    @property
    def kept(self) -> nn.Module:
        """The network that is evaluated and kept: the average of the weights, if there is one."""
        return self.model if self.ema is None else self.ema.module

    @property
    def networks(self) -> list[nn.Module]:
        """The network that is trained, its original, and its average."""
        networks = [self.trained] if self.ema is None else [self.trained, self.ema.module]
        return [*networks, self.model] if self.sharded else networks

    def __call__(self, *arguments: Any) -> Tensor:
        """Logits, in training."""
        if not self.sharded:
            return self.wrapped(*arguments)
        with self.accelerator.autocast():
            return self.wrapped(*arguments).float()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Passes in this context do not communicate with other processes; not for sharded ones."""
        wrapped, self.wrapped = self.wrapped, self.trained
        try:
            yield
        finally:
            self.wrapped = wrapped

    def update(self, factor: float, step: int) -> Tensor:
        """Change the weights by the gathered gradient at `factor` of the peak rates; its norm."""
        for settings, group in zip(self.optimizer.param_groups, self.groups, strict=True):
            settings["lr"] = group.lr * factor
        parameters = [each for group in self.optimizer.param_groups for each in group["params"]]
        norm: Tensor = whole(self.accelerator.clip_grad_norm_(parameters, self.limit))
        self.optimizer.step()
        # The fused AdamW does not increment version counters. Layers that cache kernels in
        # evaluation need them to detect changed parameters.
        increment_version(parameters)
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.gather()
            self.ema.update(self.model, step=step + 1)
        return norm

    def gather(self) -> None:
        """Bring the weights of a sharded copy back to the network; in every process."""
        if self.sharded:
            copy_whole(self.trained, self.model)

    @contextmanager
    def evaluated(self) -> Iterator[nn.Module]:
        """The network that is kept, in evaluation mode on the device; in every process."""
        self.gather()
        network = self.kept.to(self.accelerator.device)
        network.eval()
        yield network
        if self.sharded:
            network.to("cpu")
        self.trained.train()

    def state(self) -> dict[str, Any]:
        """Weights, optimiser, average and scaler, all of them whole; in every process."""
        self.gather()
        scaler, optimizer = self.accelerator.scaler, self.optimizer.state_dict()
        return {
            "model": self.model.state_dict(),
            "optimizer": whole_state(optimizer) if self.sharded else optimizer,
            "ema": None if self.ema is None else self.ema.module.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load what `state` returned, in one process or in several, sharded or not."""
        self.model.load_state_dict(state["model"])
        saved = state["optimizer"]
        if self.sharded:
            copy_parts(self.model, self.trained)
        try:
            self.optimizer.load_state_dict(
                divided_state(saved, self.optimizer) if self.sharded else saved
            )
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
        """Undo the wrapping of `forward` by Accelerate for mixed precision."""
        self.gather()
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        release_blocks(self.model)
        self.model.to(self.accelerator.device).eval()


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
            " one process, on several GPUs (--multi_gpu) or in several CPU processes (--cpu);"
            " sharding: full in the recipe takes the place of --use_fsdp"
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
