"""Probing: frozen features of every video, and temporal heads trained on them."""
