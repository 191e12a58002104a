"""Batch inference: files, folders or lists of videos in, one table out."""
