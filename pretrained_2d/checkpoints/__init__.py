"""Checkpoint folders: written, read, and made from files of other programs."""
