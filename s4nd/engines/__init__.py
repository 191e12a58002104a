"""The choice between matrix products and FFT: by a model of their cost, or by measurement."""
