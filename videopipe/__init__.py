"""Video understanding from one YAML."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.prediction.predictor import Predictor, predict

__all__ = ["Predictor", "predict"]


def __getattr__(name: str) -> Any:
    """Loaded when first used, so that `videopipe --help` need not wait for torch."""
    if name in __all__:
        from videopipe.prediction import predictor

        return getattr(predictor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
