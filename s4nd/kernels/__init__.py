"""How state spaces become kernels: bases, initial values, diagonal and low-rank kernels."""
