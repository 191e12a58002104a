"""Reports: one self-contained page per run, and an atlas of kernels."""
