"""Labelled videos: layouts, manifest, sampling, clips."""
