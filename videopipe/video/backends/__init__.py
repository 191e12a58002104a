"""The decoding backends: one module each, listed in `videopipe.video.video`."""
