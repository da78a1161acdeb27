"""A delivery's claim, and a cold start: the own Firestore client against Google's, on Google's emulator.

    make bench        or        uv run python bench/claims.py [--rounds 5] [--seconds 2]

A delivery creates a claim that must not exist and then completes it under the version it got: two writes. The emulator
and the clients share the cores, so deliveries per second say little; the CPU of this process does, and only as a ratio
of clients that were measured in turn in one run. An import is timed in a fresh interpreter, byte code and page cache
warm.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from google.cloud.firestore import AsyncClient

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.ports.documents import Create, Documents, Key, Replace
from tests.support.emulators import firestore_client, running_firestore
from tests.support.firestore_calls import thin

IN_FLIGHT = (1, 64)
GOALS = {"CPU": 2.4, "import": 0.6}
"""How many times less CPU a delivery needs at 64, and the part of the import's time that is left."""
IMPORTS = {
    "google": "import aiohttp.web, google.cloud.firestore",
    "own": "import aiohttp.web, runtime.adapters.firestore, runtime.adapters.firestore_grpc",
}
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

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def microseconds(self) -> float:
        return statistics.median(self.cpu) * 1e6


def googles(client: AsyncClient) -> Deliver:
    """With Google's client, as its documentation shows it."""

    async def deliver() -> None:
        claim: Any = client.collection("claims").document(uuid4().hex)
        written = await claim.create(CLAIM, retry=None, timeout=10)
        option = client.write_option(last_update_time=written.update_time)
        await claim.update(COMPLETED, option=option, retry=None, timeout=10)

    return deliver


def own(documents: Documents) -> Deliver:
    """Through the port."""

    async def deliver() -> None:
        key = Key("claims", uuid4().hex)
        [version] = await documents.commit([Create(key, CLAIM)])
        await documents.commit([Replace(key, COMPLETED, version)])

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
    into.cpu.append((time.process_time() - cpu) / done)


async def compare_claims(address: str, rounds: int, seconds: float) -> None:
    """Measures in turn and prints the table."""
    client = firestore_client(address, "bench-claims")
    documents = FirestoreDocuments(thin(address, "bench-claims"), SystemClock())
    clients = {"google": googles(client), "own": own(documents)}
    print(f"{'in flight':>9}  {'client':8} {'deliveries/s':>12} {'CPU us each':>12}")
    for in_flight in IN_FLIGHT:
        found = {name: Measure() for name in clients}
        for deliver in clients.values():
            await measure(deliver, in_flight, seconds, Measure())
        for _ in range(rounds):
            for name, deliver in clients.items():
                await measure(deliver, in_flight, seconds, found[name])
        for name, result in found.items():
            print(f"{in_flight:>9}  {name:8} {result.rate:>12.0f} {result.microseconds:>12.0f}")
        less = found["google"].microseconds / found["own"].microseconds
        more = found["own"].rate / found["google"].rate
        print(f"{in_flight:>9}  {more:.1f} x the deliveries, {less:.1f} x less CPU (goal at 64: {GOALS['CPU']})")
    await documents.close()
    transport: Any = client._firestore_api.transport  # noqa: SLF001 - its own close() leaves the channel open
    await transport.close()


def compare_imports(rounds: int) -> None:
    """Measures in turn and prints the ratio."""
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(rounds + 1):
        for name, line in IMPORTS.items():
            code = f"import time; began = time.perf_counter(); {line}; print(time.perf_counter() - began)"
            root = Path(__file__).resolve().parents[1]
            done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
            found[name].append(float(done.stdout))
    median = {name: statistics.median(times[1:]) for name, times in found.items()}  # the first one warms the caches
    part = median["own"] / median["google"]
    print(
        f"import  google {median['google']:.2f} s, own {median['own']:.2f} s: {part:.2f} of it (goal {GOALS['import']})"
    )


def main(rounds: int, seconds: float) -> None:
    """Starts the emulator and measures."""
    compare_imports(rounds)
    with tempfile.TemporaryDirectory() as folder, running_firestore(Path(folder) / "output.txt") as address:
        uvloop.run(compare_claims(address, rounds, seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    main(arguments.rounds, arguments.seconds)
