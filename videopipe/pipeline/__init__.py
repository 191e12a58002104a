"""From a YAML file to results: jobs, fingerprints, plan, run."""
