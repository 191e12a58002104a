"""A YAML document and its typed values, with positions for error messages."""
