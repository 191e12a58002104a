"""An atlas of the kernels of any S4ND model: along each axis, in space, in frequency."""
