"""A whole push delivery with its claim in Firestore: the worker against aiohttp with Google's client."""

from __future__ import annotations

import contextlib
from typing import Final

from bench.identities import Identities
from bench.push import CACHED, cpu_each, in_turn, requests
from bench.servers import python, running
from bench.table import Table, cheaper

OURS: Final = "holdfast worker"
PEER: Final = "aiohttp + AsyncClient"
CONNECTIONS: Final = 64


def compare(table: Table, identities: Identities, *, rounds: int, seconds: float) -> None:
    """Adds the row. Both verify, decode, claim, complete and answer 204; the worker also works, beats and logs."""
    emulator = {"FIRESTORE_EMULATOR_HOST": identities.setup.firestore}
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(running(name, command, identities.file, path="/health/ready", env=env))
            for name, command, env in (
                (OURS, python("-m", "bench.ours.worker", "firestore", "PORT"), {}),
                (PEER, python("-m", "bench.peers.aiohttp_app", "worker", "PORT"), emulator),
            )
        ]
        sent = requests(identities, CACHED)
        found = in_turn(servers, lambda server: cpu_each(server, sent, seconds, CONNECTIONS)[0], rounds)
    table.add(cheaper("whole delivery, emulator, CPU us", PEER, found[OURS], found[PEER], 2))
