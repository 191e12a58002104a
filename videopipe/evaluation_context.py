"""What a number needs beside it: which network gave it, at what cost, and how it was chosen."""

from typing import Any

from torch import nn

from pretrained_2d.card import ModelCard

NOTES = {
    "validation": "The checkpoint was chosen on validation videos; no test video was looked at.",
    "paper": "The checkpoint was chosen on the test videos, as the authors did: "
    "the number is too high for new videos.",
    "last": "The last checkpoint was taken; no video decided which.",
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
        note += " These are training videos: the number says how well they were remembered."
    elif split == "val" and protocol == "validation":
        note = "The checkpoint was chosen on these very videos: the number is too high."
    return {"protocol": protocol, "protocol_note": note}
