"""S4ND: state space layers for signals of any number of axes."""
