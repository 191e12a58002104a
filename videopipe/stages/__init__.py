"""Every stage there is. A stage is one file here and one line in this dictionary."""

from typing import Any

from videopipe.stage import Stage
from videopipe.stages import (
    adopt,
    compare,
    decode,
    evaluate,
    finetune,
    generate,
    inflate,
    predict,
    pretrain,
)

STAGES: dict[str, Stage[Any]] = {
    "generate": generate.STAGE,
    "pretrain": pretrain.STAGE,
    "adopt": adopt.STAGE,
    "inflate": inflate.STAGE,
    "decode": decode.STAGE,
    "finetune": finetune.STAGE,
    "evaluate": evaluate.STAGE,
    "predict": predict.STAGE,
    "compare": compare.STAGE,
}
