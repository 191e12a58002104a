"""The training loop, for images and clips."""
