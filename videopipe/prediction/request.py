"""The settings of a table of predictions, without the list of videos."""

import math
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import CARD
from videopipe.models import check_predicts, load_model
from videopipe.prediction.embedding.clip_embedder import ClipEmbedder, measure
from videopipe.prediction.table.rows import Columns, PredictionRow
from videopipe.scoring.engine import Engine
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Execution, Scoring

FORMAT_VERSION = 1  # raised when the same settings would give other rows


class RowMaker(Protocol):
    """The columns of a table, and how results of the model become rows."""

    @property
    def rows_per_window(self) -> int:
        """Rows that one result of the model gives; the last of a video may give fewer."""

    def schema(self) -> pa.Schema:
        """The Arrow schema; every file format is read and written through it."""

    def rows(self, scores: VideoScores) -> list[PredictionRow]:
        """The rows of one result; none while outputs of its video are still being collected."""


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """A table of predictions: model, settings, file."""

    model: Path  # checkpoint folder
    out: Path  # its suffix names the format
    scoring: Scoring = field(default_factory=Scoring)
    execution: Execution = field(default_factory=Execution)
    top_k: int = 5
    scores: bool = False  # a column with all probabilities
    limit: int | None = None  # only the first N videos
    frame_rate: float | None = None  # of folders of frames
    overwrite: bool = False
    retry_failed: bool = False  # predict videos without scores again
    engine: Literal["local", "ray"] = "local"

    def __post_init__(self) -> None:
        for name in ("top_k", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; expected 1 or more")
        if self.frame_rate is not None and not 0 < self.frame_rate < math.inf:
            raise ValueError(f"frame_rate is {self.frame_rate}; expected frames per second above 0")

    def columns(self, card: ModelCard) -> RowMaker:
        """The columns of the table."""
        if not self.scoring.embeddings:
            check_predicts(card)
        return Columns(
            labels=card.labels,
            top_k=self.top_k,
            scores=self.scores,
            embeddings=self.scoring.embeddings,
            embedding_size=self._embedding_size(card) if self.scoring.embeddings else -1,
            windows=self.scoring.windows,
            shots=self.scoring.windows and self.scoring.within_shots,
        )

    def _embedding_size(self, card: ModelCard) -> int:
        """How many numbers the input of the classifier has, from one pass over a black clip."""
        network = load_model(self.model)[0].eval()
        num_frames, _ = self.scoring.clip_shape(card)
        return measure(ClipEmbedder(network, card, per_step=False), card, num_frames)[1]

    def identity(self, card: ModelCard) -> dict[str, Any]:
        """What decides the rows. The card holds the digest of the weights."""
        digest = sha256((self.model / CARD).read_bytes()).hexdigest()
        return {
            "version": FORMAT_VERSION,
            "model": {"architecture": card.architecture, "digest": digest[:16]},
            "settings": self.scoring.identity() | self.settings(),
        }

    def settings(self) -> dict[str, Any]:
        """Settings that decide the rows, beside those of `scoring`."""
        return {"top_k": self.top_k, "scores": self.scores}

    def make_engine(self, execution: Execution) -> Engine:
        """The model with its decoding processes."""
        network, card = load_model(self.model)
        return Engine(network, card, self.scoring, execution)
