"""From a network and its card to one graph with frozen kernels and a dynamic batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram

from pretrained_2d.checkpoints.card import ModelCard
from s4nd import S4ND
from videopipe.errors import VideopipeError
from videopipe.export.constant_folding import fold_constants
from videopipe.scoring.settings import Scoring

InputType = Literal["float32", "uint8"]
LARGEST_BATCH = 4096
# What tracing and conversion raise for a network that they do not support.
TRACING_ERRORS = (RuntimeError, ValueError, TypeError, AssertionError, AttributeError, KeyError)


class ExportError(VideopipeError):
    """A network cannot be exported as asked, or the exported file does not agree with it."""


@dataclass(frozen=True)
class GraphInput:
    """The input of an exported graph, for one element of the batch."""

    type: InputType
    num_frames: int | None  # None: images
    channels: int
    image_size: int  # pixels, height and width

    @classmethod
    def of(cls, card: ModelCard, type: InputType) -> "GraphInput":
        """The input of a card's network: an image, or the number of frames in the card."""
        frames = None if card.ndim == 2 else Scoring().clip_shape(card)[0]
        size = card.preprocessing.image_size
        return cls(type, frames, len(card.preprocessing.mean), size)

    @property
    def name(self) -> str:
        """Name of the input in the file."""
        return "images" if self.num_frames is None else "clips"

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes after the batch: channels first for float32, last for uint8."""
        space = ("height", "width") if self.num_frames is None else ("time", "height", "width")
        return (*space, "channels") if self.type == "uint8" else ("channels", *space)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of `axes`."""
        size = {"height": self.image_size, "width": self.image_size}
        sizes = {"channels": self.channels, "time": self.num_frames or 1, **size}
        return tuple(sizes[axis] for axis in self.axes)

    def prepare(self, clips: Tensor, card: ModelCard) -> Tensor:
        """uint8 (batch, channels, *axes) of any caller -> what the graph takes."""
        if self.type == "uint8":
            return clips.movedim(1, -1).contiguous()
        return card.preprocessing.normalize(clips)


class GraphNetwork(nn.Module):
    """A network with the normalisation of its card in front, where the input is uint8."""

    def __init__(self, network: nn.Module, card: ModelCard, of: GraphInput) -> None:
        super().__init__()
        self.network, self.card, self.input = network, card, of

    def forward(self, frames: Tensor) -> Tensor:
        """(batch, *axes) -> (batch, classes) logits."""
        if self.input.type == "uint8":
            frames = self.card.preprocessing.normalize(frames.movedim(-1, 1))
        return self.network(frames)


def trace(
    network: nn.Module, card: ModelCard, of: GraphInput, batch_size: int | None
) -> ExportedProgram:
    """The graph of a network in evaluation, its kernels folded into constants.

    batch_size: None for a graph that takes any batch. Raises ExportError with torch's reason.
    """
    wrapped = GraphNetwork(network, card, of).eval().requires_grad_(False)
    dtype = torch.uint8 if of.type == "uint8" else torch.float32
    example = torch.zeros(batch_size or 2, *of.shape, dtype=dtype)
    batch = None if batch_size else ({0: Dim("batch", min=1, max=LARGEST_BATCH)},)
    try:
        with torch.no_grad(), _matrix_products(network):
            program = torch.export.export(wrapped, (example,), dynamic_shapes=batch)
            folded = fold_constants(program.run_decompositions({}).module(check_guards=False))
            program = torch.export.export(folded, (example,), dynamic_shapes=batch)
    except TRACING_ERRORS as error:
        remedy = "" if batch_size else "; --batch-size N exports a graph for batches of N only"
        raise ExportError(
            f"torch.export cannot trace {card.architecture}: {first_lines(error)}{remedy}"
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine, for every operator
    return program


@dataclass(frozen=True)
class GraphShapes:
    """Properties that some runtimes limit: the rank of tensors, and 3D convolutions."""

    largest_rank: int
    convolutions_3d: int


def shapes_of(program: ExportedProgram) -> GraphShapes:
    """The shapes of a traced graph. A folded network has no 3D convolution, a rebuilt one may."""
    ranks = [_rank(node) for node in program.graph.nodes]
    convolutions = [
        node
        for node in program.graph.nodes
        if "conv" in str(node.target) and len(node.args) > 1 and _rank(node.args[1]) == 5
    ]
    return GraphShapes(max(ranks), len(convolutions))


def _rank(node: object) -> int:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.ndim if isinstance(value, Tensor) else 0


@contextmanager
def _matrix_products(network: nn.Module) -> Iterator[None]:
    """S4ND layers use matrix products, not FFTs, which need complex numbers in the graph."""
    layers = [module for module in network.modules() if isinstance(module, S4ND)]
    engines = [layer.engine for layer in layers]
    try:
        for layer in layers:
            layer.engine = "matmul"
        yield
    finally:
        for layer, engine in zip(layers, engines, strict=True):
            layer.engine = engine


def first_lines(error: BaseException) -> str:
    """The beginning of an error message that may fill pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:400] or type(error).__name__
