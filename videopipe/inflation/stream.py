"""A causally inflated network frame by frame: a recurrence with one state per layer."""

import torch
from torch import Tensor, nn

from s4nd.recurrence import why_no_recurrence
from videopipe.inflation.folded import FoldedNetwork
from videopipe.inflation.mixing.folding.stream_states import StreamStates
from videopipe.inflation.mixing.state_space import StateSpaceKernel
from videopipe.inflation.options import InflationError


class Stream:
    """`stream(frame) -> logits` of all frames so far, equal to those of one clip of them.

    video: a network inflated with `bidirectional=False` (or method `none`), in eval mode. rate:
    base samples per sample, as in `video(clip, rate)`.

    Memory and time per frame are constant: a layer keeps the state of its state space, or what
    recent frames still add to later steps. Several streams may share one network; each has its own
    states. The frames of a batch belong to independent videos.

    Raises InflationError for networks that need future frames.
    """

    def __init__(self, video: nn.Module, rate: float = 1.0) -> None:
        self.video = _streamable(video)
        self.rate = rate
        self.reset()

    def reset(self) -> None:
        """Forget all frames."""
        self.num_steps = 0
        self.logits: Tensor | None = None
        self._states = StreamStates()
        self._frames: list[Tensor] = []  # of an incomplete temporal patch

    @property
    def states(self) -> list[Tensor]:
        """The states of all layers; empty before the first step."""
        return list(self._states.states.values())

    @torch.no_grad()
    def __call__(self, frames: Tensor) -> Tensor | None:
        """Logits (batch, classes) after one frame (batch, channels, height, width) more.

        Also takes several frames at once, (batch, channels, time, height, width). None until the
        first temporal patch is complete.
        """
        if self.video.training:
            raise ValueError("the network is in training mode; call eval() on it first")
        for frame in frames.unbind(2) if frames.ndim == 5 else [frames]:
            self._check_batch(frame)
            self._frames.append(frame)
            if len(self._frames) == self.video.plan.options.temporal_patch:
                self._step(torch.stack(self._frames, 2))
                self._frames = []
        return self.logits

    def _step(self, patch: Tensor) -> None:
        """Run the network on one step and update the running mean of the logits."""
        batch = self.video.batch
        self._states.begin_step()
        batch.streaming = self._states
        try:
            logits = self.video(patch, self.rate)
        finally:
            batch.streaming = None
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            raise InflationError(
                "the network outputs maps, which cannot be averaged over time; stream a network "
                "of logits or features"
            )
        self.num_steps += 1
        if self.logits is None:
            self.logits = logits
        else:
            self.logits = self.logits + (logits - self.logits) / self.num_steps

    def _check_batch(self, frame: Tensor) -> None:
        clips = None if self.logits is None else len(self.logits)
        clips = len(self._frames[0]) if self._frames else clips
        if clips is not None and len(frame) != clips:
            raise ValueError(
                f"this stream began with {clips} videos in a batch, got a frame of {len(frame)}; "
                "call reset() to begin again"
            )


def _streamable(video: nn.Module) -> FoldedNetwork:
    """The network, if every layer needs past frames only.

    Raises InflationError with the option that helps.
    """
    if not isinstance(video, FoldedNetwork):
        raise InflationError(
            f"{type(video).__name__} cannot run frame by frame: only networks with folded frames "
            "can. Inflate the 2D network with bidirectional=False and layers='re:.', which folds"
        )
    options = video.plan.options
    if options.method == "attention":
        raise InflationError("attention along time needs all earlier frames; use another method")
    if options.bidirectional and options.method != "none":
        raise InflationError(
            f"this network was inflated by {options.method} with future frames; inflate it with "
            "bidirectional=False (--no-bidirectional) to run it frame by frame"
        )
    if options.temporal_pool:
        raise InflationError("temporal_pool needs pairs of steps; inflate without it to stream")
    for name, module in video.named_modules():
        if isinstance(module, StateSpaceKernel) and not module.endless:
            reason = why_no_recurrence(module.axis.config)
            raise InflationError(
                f"{name} has no recurrence: "
                f"{reason or 'its kernel ends with the clip; inflate the 2D network again'}"
            )
    return video
