"""Networks of the paper, checkpoints that anyone can read, and how networks are trained."""

from importlib import import_module
from typing import Any

# Names are looked up when asked for, so that importing the package stays quick.
_HOMES = {
    "build": "backbones",
    "BACKBONES": "backbones",
    "from_reference": "reference",
    "load_checkpoint": "checkpoint",
    "read_card": "checkpoint",
    "save_checkpoint": "checkpoint",
    "ModelCard": "card",
    "Preprocessing": "card",
    "CheckpointError": "errors",
    "PretrainedError": "errors",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
