"""Training in less memory and time: checkpointing, sharding, quicker gradients."""
