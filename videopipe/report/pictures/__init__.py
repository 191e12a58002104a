"""Pictures of a report: plots, film strips and timelines."""
