"""Scores of a video while it is being written, frame by frame, with constant memory."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import torch

from videopipe.errors import ConfigError, VideopipeError
from videopipe.inflation.stream import Stream
from videopipe.models import check_predicts, check_takes_videos, load_model
from videopipe.video.frame_stream import stream_frames


def predict_stream(
    model: Path, source: str, out: str, *, top_k: int = 5, patience_seconds: float = 5.0
) -> int:
    """Write a JSON line per step to `out` (.jsonl, or - for stdout); returns their number.

    source: a file, which may still grow, or - for a video on stdin. Frames are taken at the rate
    that the model was inflated for. A line has the scores of all frames so far.
    """
    if out != "-" and not out.endswith(".jsonl"):
        raise ConfigError([f"--out is {out}; a stream is written to a .jsonl file, or to -"])
    rows = _rows(model, source, top_k, patience_seconds)
    if out == "-":
        return _write(rows, sys.stdout)
    with Path(out).open("w", encoding="utf-8") as file:
        return _write(rows, file)


def _write(rows: Iterator[dict[str, Any]], file: TextIO) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the number of rows is the result
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()  # a reader follows it
    return count


def _rows(
    model: Path, source: str, top_k: int, patience_seconds: float
) -> Iterator[dict[str, Any]]:
    network, card = load_model(model)
    check_predicts(card)
    check_takes_videos(card)
    stream = Stream(network)
    if card.num_frames is None or card.clip_seconds is None:
        raise VideopipeError(
            f"{model} does not name frames and seconds of a clip; inflate it again"
        )
    labels = card.labels or ()
    with sys.stdin.buffer if source == "-" else Path(source).open("rb") as file:
        period = card.clip_seconds / card.num_frames
        for seconds, frame in stream_frames(file, source, period, patience_seconds):
            pixels = card.preprocessing.resize_and_crop(frame)
            logits = stream(card.preprocessing.normalize(pixels[None]))
            if logits is None:
                continue
            scores = torch.softmax(logits[0], -1)
            best = scores.topk(min(top_k, len(scores)))
            names = [labels[i] if labels else str(i) for i in best.indices.tolist()]
            yield {
                "seconds": round(seconds, 6),
                "labels": names,
                "scores": [round(score, 6) for score in best.values.tolist()],
            }
