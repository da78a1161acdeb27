"""The executor against its peers: ratios of medians in one run, round by round in turn.

    make bench        or        python bench/executor.py [--rounds 5] [--seconds 2] [--quick]

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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import load, streams
from bench.cold_start import Start, compare, role
from bench.identities import Identities
from bench.push import FUNCTIONS, UNHANDLED, in_turn
from bench.servers import Server, python, running, tool
from bench.streams import FASTAPI, OURS
from bench.table import Spread, Table, cheaper, left_out, more
from tests.support.emulators import running_firestore

JOBS: Final = 400
"""Jobs in turn: far more than are in flight, since the executor refuses one that it already works on."""
COLD: Final = "cold start, ms"
PEER: Final = "aiohttp + google.cloud.firestore"


def empty_flows(table: Table, identities: Identities, found: dict[str, Server], rounds: int, seconds: float) -> None:
    """A job checked and answered: all verify the token and the hash, ours also runs the flow and reports it."""
    sent = [
        load.request("/execute", identities.job(f"e{number}", None, engine="flow", mode="sync"))
        for number in range(JOBS)
    ]
    command = [tool("functions-framework"), "--source", "bench/peers/functions_app.py", "--target", "execute",
               "--host", "127.0.0.1", "--port", "PORT"]  # fmt: skip
    rates: dict[str, list[float]] = {}

    def cpu(server: Server) -> float:
        before = server.cpu_seconds()
        seen = load.fired("requests", server.port, sent, status=200, seconds=seconds)
        rates.setdefault(server.name, []).append(seen["done"] / seen["seconds"])
        cost: float = 1e6 * (server.cpu_seconds() - before) / seen["done"]
        return cost

    with running(FUNCTIONS, command, identities.file, path=UNHANDLED) as functions:
        costs = in_turn([found[OURS], found[FASTAPI], functions], cpu, rounds)
    for peer in (FASTAPI, FUNCTIONS):
        table.add(
            more("empty flow, requests/s", peer, Spread(rates[OURS][1:]), Spread(rates[peer][1:])),
            cheaper("empty flow, CPU us", peer, costs[OURS], costs[peer]),
        )


def cold_start(table: Table, identities: Identities, rounds: int) -> None:
    """`python -m runtime executor` as an image runs it, against a process that imports Google's client."""
    setup = identities.setup
    environment = {"BACKEND_PUB": base64.b64encode(setup.job_public.encode()).decode()}
    starts = (
        Start(role("runtime", "executor"), environment),
        Start(python("-m", "bench.peers.aiohttp_app", "worker", "PORT"), {"FIRESTORE_EMULATOR_HOST": setup.firestore}),
    )
    compare(table, PEER, starts, identities.file, rounds, 0.6)


def main(rounds: int, seconds: float, events: int) -> None:
    """Measures everything that this machine can measure, and prints one table."""
    table = Table("Executor")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        stack.callback(table.show)  # also where a server fails: what was measured by then stays true
        folder = Path(name)
        try:
            firestore, why = stack.enter_context(running_firestore(folder / "emulator.txt")), ""
        except pytest.skip.Exception as missing:
            firestore, why = "", str(missing)
        identities = Identities(folder, firestore)
        with streams.servers(identities, folder) as found:
            streams.compare(table, identities, found, rounds=rounds, events=events)
            empty_flows(table, identities, found, rounds, seconds)
        if firestore:
            cold_start(table, identities, rounds)
        else:
            table.add(left_out(COLD, PEER, why))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--events", type=int, default=500_000, help="of a round, over all its streams")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that everything runs")
    arguments = parser.parse_args()
    if arguments.quick:
        main(1, 0.5, 20_000)
    else:
        main(arguments.rounds, arguments.seconds, arguments.events)
