"""Where predictions run: one process, several processes, a Ray cluster, a stream."""
