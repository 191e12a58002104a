"""A video file and its frames by time."""
