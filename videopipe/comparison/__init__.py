"""Several evaluations side by side: one table, and the pictures that go with it."""
