"""Rows of predictions: their columns, file formats, journals and parts, and the merged table."""
