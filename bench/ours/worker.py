"""The real worker application over a store that costs nothing, or over the Firestore emulator.

    python -m bench.ours.worker settled|free|firestore PORT

`settled`: every message has been worked before; what is left is all that stands before the work: the token, the
envelope, a look at the claim. `free`: a whole delivery, whose store and whose job answer at once. `firestore`: a whole
delivery with the claim in the emulator; its job completes at once.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.setup import Setup
from runtime.adapters.clock import SystemClock
from runtime.collector import spare_the_collector
from runtime.contract.envelope import PushEnvelope, decode_data
from runtime.contract.settings.words import PushAuth, Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.observability import logs
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Document, DocumentExists, Documents, Key, Query, Version, Write
from runtime.server import Lifecycle, serve
from runtime.worker.app import WorkerApp, server_of
from runtime.worker.deps import WorkerDeps
from runtime.worker.workload import NO_FACTS, Ended


class FreeStore:
    """Takes every write and knows no document."""

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        return None

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        return [Version("1")] * len(writes)

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        return []

    async def close(self) -> None:
        return


class SettledStore(FreeStore):
    """Every message's claim is there and completed."""

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        now = datetime.now(UTC)
        return Document(key, {"state": "completed", "attempts": 1}, Version("1"), now, now)

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        raise DocumentExists("settled before")


class InstantJob:
    """Completes."""

    facts = NO_FACTS

    async def run(self, *, deadline: float, stop: asyncio.Event) -> Ended | None:
        return Ended("completed")

    async def give_up(self, *_: object, deadline: float) -> None:
        return


class InstantWork:
    """Decodes a message's data; its jobs complete at once."""

    failed_code = "execution_failed"

    async def read(self, message: PushEnvelope) -> InstantJob:
        decode_data(message.data_encoded)
        return InstantJob()

    async def close(self) -> None:
        return


class FileKeys:
    """The key set in a file."""

    def __init__(self, path: str) -> None:
        self._keys = {key["kid"]: key for key in json.loads(Path(path).read_bytes())["keys"]}

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        return self._keys


def settings(setup: Setup) -> WorkerSettings:
    """The defaults, for the run's identities."""
    return WorkerSettings(
        workload=Workload.EXECUTION,
        project_id="bench-project",
        subscription=setup.subscription,
        push_service_account=setup.account,
        push_audience=setup.audience,
        push_auth=PushAuth.IN_PROCESS,
    )


def _firestore(setup: Setup) -> Documents:
    from bench.ours.emulator import firestore

    return firestore(setup.firestore)


async def main(mode: str, port: int) -> None:
    setup, clock = Setup.read(), SystemClock()
    keys, lifecycle = KeyCache(FileKeys(setup.jwks), clock), Lifecycle(clock)
    stores = {"settled": lambda _: SettledStore(), "free": lambda _: FreeStore(), "firestore": _firestore}
    known = settings(setup)
    deps = WorkerDeps(
        settings=known,
        documents=stores[mode](setup),
        push_verifier=PushVerifier(known.push_auth, known.push_service_account, keys, clock),
        workload=InstantWork(),
        clock=clock,
        lifecycle=lifecycle,
        metrics=Metrics(),
        revision="bench",
    )
    await keys.load()
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    await serve(server_of(WorkerApp(deps), deps), lifecycle, port=port, listener=listener, on_bound=spare_the_collector)


if __name__ == "__main__":
    logs.configure("worker", for_good=True)
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
