"""Video understanding from one YAML."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.prediction.predictor import Predictor, predict

__all__ = ["Predictor", "predict"]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that `videopipe --help` does not import torch."""
    if name in __all__:
        from videopipe.prediction import predictor

        return getattr(predictor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
