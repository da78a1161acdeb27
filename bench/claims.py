"""A delivery's claim: the own Firestore client against Google's, on Google's emulator.

A delivery creates a claim that must not exist and then completes it under the version it got: two writes. The emulator
and the clients share the cores, so deliveries per second say less than the CPU time of the client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from google.cloud.firestore import AsyncClient

from bench.ours.emulator import firestore
from bench.table import Spread, Table, cheaper, more
from runtime.ports.documents import Create, Documents, Key, Replace
from tests.support.emulators import firestore_client

IN_FLIGHT: Final = (1, 16, 64)
CALL_SECONDS: Final = 60
"""Of one call: the emulator may stop for many seconds to collect its garbage."""
GOOGLE: Final = "google.cloud.firestore AsyncClient"
OWN: Final = "holdfast"
CLAIM: dict[str, Any] = {
    "message_id": "8888888888888888",
    "subscription": "projects/p-test/subscriptions/execution",
    "workload": "execution",
    "state": "in_progress",
    "owner": "worker-00001-abc",
    "token": "0123456789abcdef",
    "attempts": 1,
    "excused": 0,
    "claimed_at_ms": 1767225600000,
    "heartbeat_at_ms": 1767225600000,
    "outcome_code": "",
    "failure_class": "",
    "schema": 1,
    "expires_at_ts": datetime(2026, 1, 2, tzinfo=UTC),
}
COMPLETED = CLAIM | {"state": "completed"}

Deliver = Callable[[], Awaitable[None]]


@dataclass
class Measure:
    """What one client did, round by round."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Microseconds for each delivery."""


def googles(client: AsyncClient) -> Deliver:
    """With Google's client, as its documentation shows it."""

    async def deliver() -> None:
        claim: Any = client.collection("claims").document(uuid4().hex)
        written = await claim.create(CLAIM, retry=None, timeout=CALL_SECONDS)
        option = client.write_option(last_update_time=written.update_time)
        await claim.update(COMPLETED, option=option, retry=None, timeout=CALL_SECONDS)

    return deliver


def own(documents: Documents) -> Deliver:
    """Through the port."""

    async def deliver() -> None:
        key = Key("claims", uuid4().hex)
        [version] = await documents.commit([Create(key, CLAIM)], timeout=CALL_SECONDS)
        await documents.commit([Replace(key, COMPLETED, version)], timeout=CALL_SECONDS)

    return deliver


async def measure(deliver: Deliver, in_flight: int, seconds: float, into: Measure) -> None:
    """Keeps `in_flight` deliveries going for a while."""
    end = time.perf_counter() + seconds
    done = 0

    async def lane() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await deliver()
            done += 1

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(in_flight)))
    into.rates.append(done / (time.perf_counter() - began))
    into.cpu.append(1e6 * (time.process_time() - cpu) / done)


async def compare(table: Table, address: str, *, rounds: int, seconds: float) -> None:
    """Measures both in turn and adds the rows."""
    client, documents = firestore_client(address, "bench-claims"), firestore(address)
    clients = {GOOGLE: googles(client), OWN: own(documents)}
    for in_flight in IN_FLIGHT:
        found = {name: Measure() for name in clients}
        for deliver in clients.values():
            await measure(deliver, in_flight, seconds, Measure())
        for _ in range(rounds):
            for name, deliver in clients.items():
                await measure(deliver, in_flight, seconds, found[name])
        ours, theirs = found[OWN], found[GOOGLE]
        table.add(
            cheaper(
                f"claim + complete, {in_flight} in flight, client CPU us",
                GOOGLE,
                Spread(ours.cpu),
                Spread(theirs.cpu),
                2,
            ),
            more(
                f"claim + complete, {in_flight} in flight, deliveries/s",
                GOOGLE,
                Spread(ours.rates),
                Spread(theirs.rates),
                1.5,
            ),
        )
    await documents.close()
    transport: Any = client._firestore_api.transport  # noqa: SLF001 - its own close() leaves the channel open
    await transport.close()
