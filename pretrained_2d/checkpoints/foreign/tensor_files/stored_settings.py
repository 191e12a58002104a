"""Settings that training programs store beside the weights; loading replaces them by nothing.

A pickle names the class of every object in it. Each name below is looked up here and not imported:
the object becomes an empty dictionary, an empty list or a `StoredSetting` without content.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any


class StoredSetting:
    """Stands for an object of a training program; drops what it is given."""

    def __new__(cls, *_: Any) -> "StoredSetting":
        """Accept what the class of the file accepts."""
        return super().__new__(cls)

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, _: Any) -> None: ...


class _Dictionary:
    """Makes a plain dictionary, whose entries the pickle sets; `torch.load` takes no subclass."""

    def __new__(cls, *_: Any) -> OrderedDict[Any, Any]:  # type: ignore[misc]
        return OrderedDict()


class _List:
    """Makes a plain list, to which the pickle appends."""

    def __new__(cls, *_: Any) -> list[Any]:  # type: ignore[misc]
        return []


_DICTIONARIES = (
    "builtins.dict", "collections.Counter", "collections.defaultdict",
    "addict.addict.Dict", "easydict.EasyDict", "yacs.config.CfgNode",
    "detectron2.config.config.CfgNode", "fvcore.common.config.CfgNode",
    "mmcv.utils.config.ConfigDict", "mmengine.config.config.ConfigDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "lightning_fabric.utilities.data.AttributeDict",
    "lightning.pytorch.utilities.parsing.AttributeDict",
    "pytorch_lightning.utilities.parsing.AttributeDict",
)  # fmt: skip
_LISTS = ("builtins.list", "collections.deque")
_OBJECTS = (
    *(f"builtins.{name}" for name in ("bool", "float", "int", "long", "str", "tuple")),
    *(f"builtins.{name}" for name in ("complex", "frozenset", "range", "slice")),
    *(f"datetime.{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
    *(
        f"{module}.{pure}{name}"
        for module in ("pathlib", "pathlib._local")
        for name in ("Path", "PosixPath", "WindowsPath")
        for pure in ("", "Pure")
    ),
    "types.SimpleNamespace", "typing.Any",
    *(f"omegaconf.base.{name}" for name in ("ContainerMetadata", "Metadata")),
    "omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig",
    *(
        f"omegaconf.nodes.{kind}Node"
        for kind in ("Any", "Boolean", "Bytes", "Float", "Integer", "Path", "String")
    ),
    "mmengine.logging.history_buffer.HistoryBuffer",
    *(  # Lightning before 1.5 kept the state of callbacks under their classes
        f"pytorch_lightning.callbacks.{name}"
        for name in ("early_stopping.EarlyStopping", "model_checkpoint.ModelCheckpoint")
    ),
)  # fmt: skip

SETTINGS: Mapping[str, Any] = {
    **dict.fromkeys(_DICTIONARIES, _Dictionary),
    **dict.fromkeys(_LISTS, _List),
    **dict.fromkeys(_OBJECTS, StoredSetting),
}
