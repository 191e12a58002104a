"""Data sets of images: layouts, decoding, augmentation, evaluation."""
