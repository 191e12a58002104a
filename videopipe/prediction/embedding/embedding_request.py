"""The settings of a table of embeddings, without the list of videos."""

from dataclasses import dataclass, replace
from typing import Any, get_args

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.models import load_model
from videopipe.prediction.embedding.clip_embedder import ClipEmbedder, measure
from videopipe.prediction.embedding.embedding_rows import (
    DType,
    EmbeddingColumns,
    EmbeddingShape,
    NpyFolder,
    Per,
)
from videopipe.prediction.request import RowMaker, TableRequest
from videopipe.scoring.engine import Engine
from videopipe.scoring.settings import Execution

INDEX = "index.parquet"  # the table of a folder of .npy files


@dataclass(frozen=True, kw_only=True)
class EmbeddingRequest(TableRequest):
    """A table with a vector per video, window or frame, or a folder with an array per video.

    `scoring.windows` is set from `per`.
    """

    per: Per = "video"
    layer: str | None = None  # whose output is the embedding; None: the input of the classifier
    dtype: DType = "float16"
    npy: bool = False  # `out` is the index of a folder of .npy files

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in (("per", get_args(Per)), ("dtype", get_args(DType))):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected {', '.join(choices)}"
                )
        if self.scoring.windows != (self.per != "video"):
            object.__setattr__(self, "scoring", replace(self.scoring, windows=self.per != "video"))
        if self.per == "frame" and self.scoring.stride_seconds is not None:
            raise ValueError("stride_seconds is for --per window; frames have the step of a clip")
        if self.per == "frame" and self.scoring.crops != 1:
            raise ValueError("crops is for videos and windows; leave it out with --per frame")

    def settings(self) -> dict[str, Any]:
        """What decides the rows, beside the sampling."""
        return {"per": self.per, "layer": self.layer, "dtype": self.dtype, "npy": self.npy}

    def columns(self, card: ModelCard) -> RowMaker:
        """The columns; the network is applied once to find the number of features."""
        num_frames, clip_seconds = self.scoring.clip_shape(card)
        steps, width = measure(self._embedder()[0], card, num_frames)
        shape = EmbeddingShape(
            width=width,
            steps=steps,
            clip_seconds=clip_seconds,
            dtype=self.dtype,
            per=self.per,
            shots=self.scoring.within_shots and self.per != "video" and not self.npy,
        )
        return NpyFolder(shape, self.out.parent) if self.npy else EmbeddingColumns(shape)

    def make_engine(self, execution: Execution) -> Engine:
        """The network without its classifier, with its decoding processes."""
        embedder, card = self._embedder()
        # The embedder takes clips, also of an image network.
        engine = Engine(embedder, replace(card, ndim=3), self.scoring, execution)
        engine.plan = replace(engine.plan, adjacent=self.per == "frame")
        return engine

    def _embedder(self) -> tuple[ClipEmbedder, ModelCard]:
        network, card = load_model(self.model)
        per_step = self.per == "frame"
        return ClipEmbedder(network.eval(), card, self.layer, per_step=per_step), card
