"""Clips of videos: the times of their frames, their augmentation, the training set."""
