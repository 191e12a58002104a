"""From clips to scores: the engine that evaluation and prediction share."""
