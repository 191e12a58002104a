"""Video in: decoding by time, clip sampling, data sets, transforms."""
