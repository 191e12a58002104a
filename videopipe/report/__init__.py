"""See it: one self-contained page per run, and an atlas of kernels."""
