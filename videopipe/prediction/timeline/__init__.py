"""Windows of a video as intervals: (start, end, label, score)."""
