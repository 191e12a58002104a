"""All stages. A stage is one file here and one line in this dictionary."""

from typing import Any

from videopipe.pipeline.stage import Stage
from videopipe.stages import (
    adopt,
    compare,
    decode,
    evaluate,
    features,
    finetune,
    generate,
    inflate,
    predict,
    pretrain,
    probe,
)

STAGES: dict[str, Stage[Any]] = {
    "generate": generate.STAGE,
    "pretrain": pretrain.STAGE,
    "adopt": adopt.STAGE,
    "inflate": inflate.STAGE,
    "decode": decode.STAGE,
    "finetune": finetune.STAGE,
    "features": features.STAGE,
    "probe": probe.STAGE,
    "evaluate": evaluate.STAGE,
    "predict": predict.STAGE,
    "compare": compare.STAGE,
}
