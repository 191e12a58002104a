"""Metrics of scored videos: accuracies, intervals, comparisons."""
