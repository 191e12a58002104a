"""`python -m videopipe`, also what `accelerate launch -m videopipe` starts."""

import sys

from videopipe.cli import main

sys.exit(main())
