"""Networks of the paper, checkpoints that anyone can read, and how networks are trained."""
