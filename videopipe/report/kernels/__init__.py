"""Pictures of the kernels of an S4ND model: along each axis, in space, in frequency."""
