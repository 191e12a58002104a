"""Measuring decoders and models on the machine and the files at hand."""
