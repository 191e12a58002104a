"""Locks, processes, the worker pool and progress."""
