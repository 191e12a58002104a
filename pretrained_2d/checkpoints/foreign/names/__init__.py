"""The names of weights in other programs, and how they match those of a network."""
