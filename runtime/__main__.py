"""`python -m runtime ROLE`: what every container of Holdfast runs."""

from __future__ import annotations

import os
import sys

from runtime.authorities import authorities_on_demand
from runtime.collector import hold_the_collector


def main() -> int:
    """Runs the role that the command line names; what makes a start cheap comes before the imports that are dear."""
    hold_the_collector()
    with authorities_on_demand():
        from runtime.process import run_role
        from runtime.wiring import google

    return run_role(sys.argv[1] if len(sys.argv) == 2 else "", os.environ, google)


if __name__ == "__main__":
    sys.exit(main())
