"""The status of a video: one vocabulary for inspection, evaluation and prediction.

"ok": everything was decoded. "partial": decoding failed after a part, which is used. "unknown": not
inspected yet. All others are failures:

"missing": there is no such file. "error": it cannot be decoded. "timeout": the decoder made no
progress. "crash": the decoder's process died. "memory": decoding needs more than the limit.
"too_long": the video exceeds the budget of clips or time per video.
"""

from typing import Literal

VideoStatus = Literal[
    "unknown", "ok", "partial", "missing", "error", "timeout", "crash", "memory", "too_long"
]
USED: tuple[VideoStatus, ...] = ("ok", "partial")  # the statuses of videos that have a result
FAILED_BEFORE = "failed"  # the status of all failures in older manifests and tables of scores
