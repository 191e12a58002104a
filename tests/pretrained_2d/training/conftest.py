"""Lets the tests of training share their toy: `from toy_training import run`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
