"""Networks of the paper, checkpoint folders, data sets of images, and training."""

from importlib import import_module
from typing import Any

# Names are imported on first use, so that importing the package is quick.
_HOMES = {
    "build": "networks.backbones",
    "BACKBONES": "networks.backbones",
    "from_reference": "checkpoints.reference",
    "load_checkpoint": "checkpoints.folder",
    "read_card": "checkpoints.folder",
    "save_checkpoint": "checkpoints.folder",
    "ModelCard": "checkpoints.card",
    "Preprocessing": "checkpoints.card",
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
