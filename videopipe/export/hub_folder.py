"""A checkpoint as a folder for the Hugging Face hub: its two files and a README.md card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrained_2d import atomic
from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import CARD, WEIGHTS, read_card, read_weights
from videopipe.export.clip_graph import ExportError

README, METRICS = "README.md", "metrics.json"
MOST_LABELS = 50  # listed one by one


def export_hub_folder(folder: Path, out: Path, evaluation: Path | None = None) -> None:
    """Copy a checkpoint to the new folder `out` and write its card.

    `evaluation`: the result of an `evaluate` stage of this model, or its metrics.json.
    Raises ExportError for an evaluation that cannot be used or does not belong to the labels.
    """
    card = read_card(folder)
    read_weights(folder)  # compared with the digest in the card
    if card.is_encoder and evaluation is not None:
        raise ExportError("--evaluation is for networks with classes; the model is an encoder")
    metrics = None if evaluation is None else read_metrics(evaluation, card)
    text = hub_card(card, out.name, metrics)
    try:
        with atomic.new_folder(out) as beside:
            for name in (WEIGHTS, CARD):
                (beside / name).write_bytes((folder / name).read_bytes())
            (beside / README).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ExportError(
            f"--out {out} cannot be written ({error.strerror}); name a new folder"
        ) from error


def read_metrics(evaluation: Path, card: ModelCard) -> dict[str, Any]:
    """The numbers of an evaluation with the labels of the card."""
    path = evaluation / METRICS if evaluation.is_dir() else evaluation
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
        videos, top1 = metrics["videos"], metrics["top1"]
        missing = [name for name in ("value", "low", "high") if name not in top1]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"--evaluation {path} is not the metrics.json of an evaluate stage "
            f"({type(error).__name__}: {error})"
        ) from error
    if missing or not videos:
        raise ExportError(f"--evaluation {path} has no top-1 accuracy with its interval")
    if card.labels is not None and tuple(metrics.get("labels", ())) != card.labels:
        raise ExportError(
            f"--evaluation {path} has other labels than the checkpoint; name an evaluation of "
            "this model"
        )
    return dict(metrics)


def hub_card(card: ModelCard, name: str, metrics: Mapping[str, Any] | None) -> str:
    """README.md: the header that the hub reads, then results, usage, input and origin."""
    task = _task(card)
    header = ["---", "library_name: videopipe", f"pipeline_tag: {task}", "tags: [videopipe]"]
    if metrics is not None:
        header += _model_index(name, task, metrics)
    parts = [
        "\n".join([*header, "---"]),
        f"# {name}",
        _summary(card),
        *([] if metrics is None else [_accuracies(metrics)]),
        f"## Use\n\n{_features_example(name) if card.is_encoder else _example(name)}",
        _preprocessing(card),
        *([] if card.labels is None else [_labels(card.labels)]),
        f"## Origin\n\n```json\n{_json(card.provenance)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _task(card: ModelCard) -> str:
    """The hub's name of what the network does; it has none for features of videos."""
    if card.is_encoder:
        return "image-feature-extraction" if card.ndim == 2 else "feature-extraction"
    return "image-classification" if card.ndim == 2 else "video-classification"


def _model_index(name: str, task: str, metrics: Mapping[str, Any]) -> list[str]:
    """The model index as JSON, which is valid YAML and quotes any name."""
    scores = {"top-1 accuracy": metrics["top1"]["value"]}
    if "top5" in metrics:
        scores["top-5 accuracy"] = metrics["top5"]["value"]
    entry = {
        "name": name,
        "results": [
            {
                "task": {"type": task},
                "dataset": {"name": f"{metrics['videos']} videos", "type": "videos"},
                "metrics": [
                    {"type": "accuracy", "name": what, "value": round(value, 6)}
                    for what, value in scores.items()
                ],
            }
        ],
    }
    return [f"model-index: {json.dumps([entry], ensure_ascii=False)}"]


def _summary(card: ModelCard) -> str:
    classes = "" if card.labels is None else f" It distinguishes {len(card.labels)} classes."
    if card.ndim == 2:
        return f"An image network of videopipe, architecture `{card.architecture}`.{classes}"
    inflated = card.inflation is not None or "time_axis" in card.options
    how = ", inflated from 2D" if inflated else ""
    seconds = "" if card.clip_seconds is None else f" of {card.clip_seconds:g} seconds"
    frames = "" if card.num_frames is None else f" A clip is {card.num_frames} frames{seconds}."
    return (
        f"A video network of videopipe, architecture `{card.architecture}`{how}.{frames}{classes}"
    )


def _accuracies(metrics: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {entry['value']:.1%} | {entry['low']:.1%} to {entry['high']:.1%} |"
        for name, entry in (("top-1", metrics["top1"]), ("top-5", metrics.get("top5")))
        if entry is not None
    ]
    counted = f"{metrics['videos']} videos of split `{metrics.get('split', '?')}`"
    recordings = metrics.get("recordings", metrics["videos"])
    return "\n".join(
        [
            "## Accuracy",
            "",
            "| metric | value | 95 % interval |",
            "|---|---|---|",
            *rows,
            "",
            f"{counted}, {recordings} recordings, {metrics.get('failed', 0)} unreadable "
            "(counted as mistakes).",
        ]
    )


def _example(name: str) -> str:
    return (
        "```python\nfrom videopipe import Predictor\n\n"
        f'with Predictor.from_pretrained("{name}") as predictor:  # a folder, or owner/name\n'
        '    print(predictor.classify("video.mp4"))  # [{"score": 0.9, "label": "…"}, …]\n```'
    )


def _features_example(name: str) -> str:
    return (
        f"```\nvideopipe embed {name} videos/ --out features.parquet\n```\n\n"
        "It has no classifying layer: its output is features."
    )


def _preprocessing(card: ModelCard) -> str:
    chosen = card.preprocessing
    scaled = "both sides" if chosen.squash else "the short side"
    return (
        f"## Input\n\nRGB frames; {scaled} scaled to {chosen.resize} pixels "
        f"({chosen.interpolation}), {chosen.image_size} × {chosen.image_size} pixels cut from the "
        f"centre, values in [0, 1] minus {list(chosen.mean)}, divided by {list(chosen.std)}. "
        "videopipe does this."
    )


def _labels(labels: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{label}`" for label in labels[:MOST_LABELS])
    rest = len(labels) - MOST_LABELS
    return f"## Labels\n\n{shown}" + (f" and {rest} more (`config.json`)" if rest > 0 else "")


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), indent=2, ensure_ascii=False)
