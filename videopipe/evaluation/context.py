"""Facts about an evaluated network: its size, its training cost, how its checkpoint was chosen."""

from typing import Any

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard

NOTES = {
    "validation": "The checkpoint was chosen on validation videos; no test video was used.",
    "paper": "The checkpoint was chosen on the test videos, as the authors did: "
    "the accuracy is too high for new videos.",
    "last": "The last checkpoint was evaluated; none was chosen on videos.",
    "none": "The checkpoint was not fine-tuned here.",
}


def describe_model(network: nn.Module, card: ModelCard) -> dict[str, Any]:
    """Size of the network, cost of its training, and the learned lengths of its time kernels."""
    made = card.provenance
    training = made.get("training") or {}
    return {
        "model": {
            "architecture": card.architecture,
            "method": made.get("method") or (made.get("parent") or {}).get("method"),
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "num_frames": card.num_frames,
            "clip_seconds": card.clip_seconds,
            "image_size": card.preprocessing.image_size,
        },
        "training": {
            key: training.get(key) for key in ("seconds_per_step", "peak_memory_bytes", "steps")
        },
        "time_axis": made.get("time_axis"),
    }


def describe_protocol(card: ModelCard, split: str) -> dict[str, Any]:
    """How the checkpoint was chosen, and what that means for a number on `split`."""
    protocol = str(card.provenance.get("protocol") or "none")
    note = NOTES[protocol]
    if split == "train":
        note += " These are training videos: the accuracy does not hold for new videos."
    elif split == "val" and protocol == "validation":
        note = "The checkpoint was chosen on these videos: the accuracy is too high for new videos."
    elif split == "val" and protocol in ("last", "paper"):
        note += " Training may have used these validation videos: the number may be too high."
    return {"protocol": protocol, "protocol_note": note}
