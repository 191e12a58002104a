"""Fine-tuning of video networks."""
