"""The worker's role from its environment to its port, as `python -m runtime worker` starts it.

python -m bench.ours.cold_worker PORT
"""

from __future__ import annotations

import os
import sys

from runtime.authorities import authorities_on_demand
from runtime.collector import hold_the_collector


def main(port: str) -> int:
    hold_the_collector()
    with authorities_on_demand():
        from bench.ours.outside import outside
        from runtime.process import run_role

    environ = {
        name: os.environ[name] for name in os.environ if name.startswith(("GCP_", "PUBSUB_", "BACKEND_", "API_"))
    }
    return run_role("worker", {**environ, "PORT": port}, outside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
