"""What the operating system is asked for: locks, folders, processes, worker pool, progress."""
