"""Files of other programs as named tensors; nothing in them is executed."""
