"""What a training run writes: metrics, progress, the best networks."""
