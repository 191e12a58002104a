"""The commands of `videopipe`, one light module each: SUMMARY, EXAMPLES, add_arguments, main."""
