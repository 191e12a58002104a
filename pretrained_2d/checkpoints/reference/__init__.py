"""Whole networks saved by the public S4ND code become networks of this package."""

from pretrained_2d.checkpoints.reference.read import from_reference, recognise

__all__ = ["from_reference", "recognise"]
