"""Export a checkpoint folder: trace, write beside, compare, rename."""

import json
import os
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pretrained_2d import atomic
from pretrained_2d.checkpoints.card import ModelCard
from videopipe.export.agreement import Agreement, compare, generated_clips, real_clips
from videopipe.export.clip_graph import ExportError, GraphInput, InputType, shapes_of, trace
from videopipe.export.file_formats import (
    OPSET,
    FileFormat,
    check_format,
    load_program,
    write_program,
)
from videopipe.models import load_model

FORMAT, VERSION = "videopipe-export", 1
TOLERANCE = 1e-4  # of the largest logit


@dataclass(frozen=True)
class ExportReport:
    """The description of an exported file."""

    agreement: Agreement
    operators: dict[str, int]  # operator -> how often the file uses it
    size_bytes: int
    description: dict[str, Any]


def export_checkpoint(
    folder: Path | str,
    out: Path,
    format: FileFormat,
    *,
    input_type: InputType = "float32",
    batch_size: int | None = None,
    videos: Sequence[str] = (),
    tolerance: float = TOLERANCE,
) -> ExportReport:
    """Write `out` and its description as JSON; `out` exists only if it agrees with the network.

    Raises ExportError for a network that cannot be exported, a file that does not agree or an `out`
    that cannot be written, and CheckpointError for the folder itself.
    """
    check_format(format)
    _require_writable(out)
    network, card = load_model(folder)
    clips = real_clips(card, videos) if videos else generated_clips(card)
    of = GraphInput.of(card, input_type)
    program = trace(network, card, of, batch_size)
    shapes = shapes_of(program)
    description = describe(card, of, format, batch_size)
    # torch.export.save and load insist on the suffix.
    partial = out.with_name(f".{out.stem}.{uuid.uuid4().hex[:8]}.partial{out.suffix}")
    try:
        names = (of.name, description["output"]["name"])
        operators = write_program(format, program, partial, names, description)
        agreement = compare(
            load_program(format, partial), network, card, of, clips,
            tolerance=tolerance, batch_size=batch_size,
        )  # fmt: skip
        if not agreement.holds:
            raise ExportError(
                f"the exported {format} file does not agree with {folder}: {agreement}. "
                f"{out} was not written; raise --tolerance if this difference is acceptable"
            )
        description |= {
            "agreement": asdict(agreement),
            "operators": operators,
            "largest_rank": shapes.largest_rank,
            "convolutions_3d": shapes.convolutions_3d,
        }
        text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
        atomic.write_text(description_path(out), text)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(out)
        atomic.sync_folder(out.parent)
    finally:
        partial.unlink(missing_ok=True)
    return ExportReport(agreement, operators, out.stat().st_size, description)


def _require_writable(out: Path) -> None:
    """Raise ExportError if `out` cannot be written; called before tracing, which takes minutes."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ExportError(
            f"--out {out} cannot be written ({error.strerror}); name a file in a writable folder"
        ) from error


def description_path(out: Path) -> Path:
    """The path of the description of an exported file: `model.onnx` -> `model.onnx.json`."""
    return out.with_name(f"{out.name}.json")


def output_of(card: ModelCard) -> dict[str, Any]:
    """Logits with the function that makes probabilities of them, or features of an encoder."""
    if card.is_encoder:
        return {"name": "features", "axes": ["batch", "features"]}
    probabilities = "sigmoid" if card.multi_label else "softmax"
    return {"name": "logits", "axes": ["batch", "classes"], "probabilities": probabilities}


def describe(
    card: ModelCard, of: GraphInput, format: FileFormat, batch_size: int | None
) -> dict[str, Any]:
    """The description of the file, which is stored inside and beside it."""
    batch: int | str = batch_size or "batch"
    values = "pixels, RGB, 0 to 255, resized and cropped"
    if of.type == "float32":
        values += ", then (pixel / 255 - mean) / std"
    return {
        "format": FORMAT,
        "version": VERSION,
        "architecture": card.architecture,
        "opset": OPSET if format == "onnx" else None,
        "input": {
            "name": of.name,
            "type": of.type,
            "axes": ["batch", *of.axes],
            "shape": [batch, *of.shape],
            "values": values,
        },
        "output": output_of(card),
        "labels": None if card.labels is None else list(card.labels),
        "preprocessing": asdict(card.preprocessing),
        "num_frames": of.num_frames,
        "clip_seconds": card.clip_seconds,
        "provenance": dict(card.provenance),
    }
