"""The layouts of data sets on disk, and the videos they list."""
