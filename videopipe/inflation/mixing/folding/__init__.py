"""Frames folded into the batch: unfolding, products over steps, states of a stream."""
