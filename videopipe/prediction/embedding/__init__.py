"""Embeddings of videos, windows or frames, as tables, shards or arrays."""
