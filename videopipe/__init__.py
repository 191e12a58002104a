"""Video understanding from one YAML."""
