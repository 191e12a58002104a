"""Makes `toy_training` importable by the tests of training."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
