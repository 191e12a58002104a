"""Which layers of a 2D network mix time: the trial run, the selection and the plan."""
