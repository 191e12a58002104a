"""Several evaluations in one table."""
