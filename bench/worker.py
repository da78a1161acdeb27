"""The push worker against its peers: ratios of medians in one run, round by round in turn.

    make bench        or        python bench/worker.py [--rounds 5] [--seconds 2] [--quick]

What each side does, how to read the table, and what it does not say: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import claims, delivery, push
from bench.cold_start import Start, compare, role
from bench.identities import Identities
from bench.servers import python
from bench.table import Table, left_out
from tests.support.emulators import running_firestore

COLD: Final = "cold start, ms"
PEER: Final = "aiohttp + google.cloud.firestore"


def cold_start(table: Table, identities: Identities, rounds: int) -> None:
    """The worker's role with the adapters of production, against a process that imports Google's client."""
    setup = identities.setup
    public = base64.b64encode(setup.job_public.encode()).decode()
    environment = {
        "GCP_QUEUE_WORKLOAD": "execution", "GCP_PROJECT_ID": "bench-project", "PUBSUB_SUBSCRIPTION": "execution",
        "PUBSUB_PUSH_SERVICE_ACCOUNT": setup.account, "PUBSUB_PUSH_AUDIENCE": setup.audience,
        "EXECUTOR_TIMEOUT_SECS": "540", "GCP_QUEUE_ACK_DEADLINE_SECS": "600", "GCP_QUEUE_REQUEST_TIMEOUT_SECS": "600",
        "GCP_QUEUE_PROCESS_TIMEOUT_SECS": "570", "BACKEND_PUB": public, "API_BASE_URL": "https://api.example",
    }  # fmt: skip
    starts = (
        Start(role("bench.ours.cold_worker", "PORT"), environment),
        Start(python("-m", "bench.peers.aiohttp_app", "worker", "PORT"), {"FIRESTORE_EMULATOR_HOST": setup.firestore}),
    )
    compare(table, PEER, starts, identities.file, rounds, 0.65)


def main(rounds: int, seconds: float) -> None:
    """Measures everything that this machine can measure, and prints one table."""
    table = Table("Push worker")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        stack.callback(table.show)  # also where a server fails: what was measured by then stays true
        folder = Path(name)
        try:
            firestore, why = stack.enter_context(running_firestore(folder / "emulator.txt")), ""
        except pytest.skip.Exception as missing:
            firestore, why = "", str(missing)
        identities = Identities(folder, firestore)
        push.compare(table, identities, folder, rounds=rounds, seconds=seconds)
        if firestore:
            uvloop.run(claims.compare(table, firestore, rounds=rounds, seconds=seconds))
            delivery.compare(table, identities, rounds=rounds, seconds=seconds)
            cold_start(table, identities, rounds)
        else:
            table.add(
                left_out("claim + complete", claims.GOOGLE, why),
                left_out("whole delivery", delivery.PEER, why),
                left_out(COLD, PEER, why),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--quick", action="store_true", help="one short round: shows that everything runs")
    arguments = parser.parse_args()
    main(1 if arguments.quick else arguments.rounds, 0.5 if arguments.quick else arguments.seconds)
