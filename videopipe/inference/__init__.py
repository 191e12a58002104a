"""Batch inference: any folder of videos in, one table out, whatever the files.

Names are loaded when they are first used: the decoding processes need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.inference.engine import Engine, score_videos
    from videopipe.inference.manifests import Source
    from videopipe.inference.predictor import Predictor, predict
    from videopipe.inference.scores import VideoScores
    from videopipe.inference.settings import Execution, Scoring
    from videopipe.inference.table import TableRequest, predict_table

__all__ = [
    "Engine",
    "Execution",
    "Predictor",
    "Scoring",
    "Source",
    "TableRequest",
    "VideoScores",
    "predict",
    "predict_table",
    "score_videos",
]

_HOMES = {
    "Engine": "engine",
    "Execution": "settings",
    "Predictor": "predictor",
    "Scoring": "settings",
    "Source": "manifests",
    "TableRequest": "table",
    "VideoScores": "scores",
    "predict": "predictor",
    "predict_table": "table",
    "score_videos": "engine",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
