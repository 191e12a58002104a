"""Predictions without files: `predict`, and `Predictor`, which keeps a model loaded."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.models import check_predicts, find_model, load_model
from videopipe.prediction.discovery import VideoArgument, VideoListing
from videopipe.prediction.table.rows import Columns, PredictionRow, make_row
from videopipe.scoring.engine import Engine
from videopipe.scoring.settings import Execution, Scoring

Paths = VideoArgument | Iterable[VideoArgument]


class Predictor:
    """A loaded model and its decoding processes.

        with Predictor("runs/model", device="cuda") as predictor:
            for row in predictor.predict("videos/"):
                print(row["path"], row["label_1"], row["probability_1"])

    Several threads may call `predict` at the same time. They share the model. Each call has its own
    decoding processes, so limit the number of calls that run at once as you limit processes.

    Keywords are those of `Scoring` (clips, windows, stride_seconds, precision, …) and of
    `Execution` (device, workers, batch_size, timeout_seconds, …), `top_k`, `scores`, and
    `frame_rate` of folders of frames.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        top_k: int = 5,
        scores: bool = False,
        frame_rate: float | None = None,
        **settings: Any,
    ) -> None:
        scoring, execution = split_settings(settings)
        self.frame_rate = frame_rate
        network, self.card = load_model(Path(model))
        if not scoring.embeddings:
            check_predicts(self.card)
        self.columns = Columns(
            labels=self.card.labels,
            top_k=top_k,
            scores=scores,
            embeddings=scoring.embeddings,
            windows=scoring.windows,
        )
        self._engine = Engine(network, self.card, scoring, execution)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, revision: str | None = None, **settings: Any
    ) -> Self:
        """The predictor of a checkpoint folder, or of `owner/name` on the Hugging Face hub.

        `revision`: a branch, tag or commit of the hub. Other keywords as for `Predictor`.
        """
        return cls(find_model(name, revision), **settings)

    def classify(self, video: VideoArgument) -> list[dict[str, Any]]:
        """The most probable classes of one video, as transformers' pipelines return them.

            [{"score": 0.91, "label": "jump"}, {"score": 0.05, "label": "run"}, …]

        Raises DataError for a video that cannot be read, and for a path that is not one video.
        """
        rows = list(self.predict(video))
        if len(rows) != 1:
            raise DataError(
                f"{video}: {len(rows)} results, classify takes one video; use predict for folders, "
                "patterns and windows"
            )
        row = rows[0]
        if row["status"] != "ok":
            raise DataError(f"{video}: {row['status']}: {row['error']}")
        ranks = range(1, self.columns.num_top + 1)
        return [
            {"score": row[f"probability_{rank}"], "label": row[f"label_{rank}"]}
            for rank in ranks
            if row[f"label_{rank}"] is not None
        ]

    def predict(self, paths: Paths) -> Iterator[PredictionRow]:
        """Rows as they get ready, one per video or window, also for what cannot be decoded."""
        given = [paths] if isinstance(paths, str | os.PathLike | VideoRange) else paths
        for scores in self._engine.score(VideoListing(given, self.frame_rate)):
            yield make_row(scores, self.columns)

    def close(self) -> None:
        """End the decoding processes."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def predict(
    model: str | os.PathLike[str], paths: Paths, **settings: Any
) -> Iterator[PredictionRow]:
    """Rows of predictions as they get ready: `for row in videopipe.predict("model", "videos/")`.

    `paths`: files, folders, patterns, lists, manifests. Keywords as for `Predictor`.
    """
    with Predictor(model, **settings) as predictor:
        yield from predictor.predict(paths)


def split_settings(settings: dict[str, Any]) -> tuple[Scoring, Execution]:
    """Each keyword to the dataclass that has the field; TypeError where neither has it."""
    decides_scores = set(Scoring.__dataclass_fields__)
    scoring = {name: value for name, value in settings.items() if name in decides_scores}
    execution = {name: value for name, value in settings.items() if name not in decides_scores}
    unknown = sorted(set(execution) - set(Execution.__dataclass_fields__))
    if unknown:
        known = ", ".join(sorted(decides_scores | set(Execution.__dataclass_fields__)))
        raise TypeError(f"unknown keyword {unknown[0]!r}; known are top_k, scores, {known}")
    return Scoring(**scoring), Execution(**execution)
