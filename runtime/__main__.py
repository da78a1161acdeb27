"""`python -m runtime ROLE`: what every container of Holdfast runs."""

from __future__ import annotations

import os
import sys

from runtime.process import run_role
from runtime.wiring import google

if __name__ == "__main__":
    sys.exit(run_role(sys.argv[1] if len(sys.argv) == 2 else "", os.environ, google))
