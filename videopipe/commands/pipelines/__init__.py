"""Commands on a pipeline file: write, check, show and run it."""
