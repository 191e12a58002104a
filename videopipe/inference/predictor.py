"""Predictions without files: `predict`, and `Predictor`, which keeps a model loaded."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from videopipe.inference.engine import Engine
from videopipe.inference.manifests import Source
from videopipe.inference.rows import Columns, Row, make_row
from videopipe.inference.settings import Execution, Scoring
from videopipe.inference.sources import find_videos
from videopipe.models import load_model

Paths = str | os.PathLike[str] | Source | Iterable[str | os.PathLike[str] | Source]


class Predictor:
    """A loaded model, with its decoding processes.

        with Predictor("runs/model", device="cuda") as predictor:
            for row in predictor.predict("videos/"):
                print(row["path"], row["label_1"], row["probability_1"])

    Keywords are those of `Scoring` (clips, windows, stride_seconds, precision, …) and of
    `Execution` (device, workers, batch_size, timeout_seconds, …), and `top_k` and `scores`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        top_k: int = 5,
        scores: bool = False,
        **settings: Any,
    ) -> None:
        scoring, execution = split_settings(settings)
        network, self.card = load_model(Path(model))
        self.columns = Columns(
            labels=self.card.labels,
            top_k=top_k,
            scores=scores,
            embeddings=scoring.embeddings,
            windows=scoring.windows,
        )
        self._engine = Engine(network, self.card, scoring, execution)

    def predict(self, paths: Paths) -> Iterator[Row]:
        """Rows as they get ready, one per video or window, also for what cannot be decoded."""
        given = [paths] if isinstance(paths, str | os.PathLike | Source) else paths
        for scores in self._engine.score(find_videos(given).sources):
            yield make_row(scores, self.columns)

    def close(self) -> None:
        """End the decoding processes."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def predict(model: str | os.PathLike[str], paths: Paths, **settings: Any) -> Iterator[Row]:
    """Rows of predictions as they get ready: `for row in videopipe.predict("model", "videos/")`.

    `paths`: files, folders, patterns, lists, manifests. Keywords as for `Predictor`.
    """
    with Predictor(model, **settings) as predictor:
        yield from predictor.predict(paths)


def split_settings(settings: dict[str, Any]) -> tuple[Scoring, Execution]:
    """Keywords to the dataclass that knows them; TypeError for one that neither does."""
    decides_scores = set(Scoring.__dataclass_fields__)
    scoring = {name: value for name, value in settings.items() if name in decides_scores}
    execution = {name: value for name, value in settings.items() if name not in decides_scores}
    unknown = sorted(set(execution) - set(Execution.__dataclass_fields__))
    if unknown:
        known = ", ".join(sorted(decides_scores | set(Execution.__dataclass_fields__)))
        raise TypeError(f"unknown keyword {unknown[0]!r}; known are top_k, scores, {known}")
    return Scoring(**scoring), Execution(**execution)
