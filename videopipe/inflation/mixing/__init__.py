"""Modules that mix time inside a 2D network."""
