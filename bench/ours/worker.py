"""The real worker application over a store that costs nothing, or over the Firestore emulator.

    python -m bench.ours.worker unclaimed|settled|free|firestore PORT

`unclaimed`: all that is not the claim or the work: the token, the envelope, the answer, its line of log and its counts.
`settled`: the same with a claim that is tried and then read, since the message has been worked before. `free`: a whole
delivery, whose store and whose job answer at once. `firestore`: a whole delivery with the claim in the emulator; its
job completes at once.
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
from runtime.contract.outcomes import Outcome, outcome
from runtime.contract.settings.words import PushAuth, Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.observability import logs
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Document, DocumentExists, Documents, Key, Query, Version, Write
from runtime.server import Lifecycle, serve
from runtime.worker.app import WorkerApp, server_of
from runtime.worker.claim import Claims
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import ClaimTools
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


class Unclaimed(Claims):
    """Says of every message that it was worked before, without asking."""

    async def acquire(self, message_id: str, delivery_attempt: int | None, *, deadline: float) -> Outcome:
        return outcome("duplicate_settled")


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


def _store(mode: str, setup: Setup) -> Documents:
    if mode != "firestore":
        return SettledStore() if mode == "settled" else FreeStore()
    from bench.ours.emulator import firestore

    return firestore(setup.firestore)


async def main(mode: str, port: int) -> None:
    setup, clock = Setup.read(), SystemClock()
    keys, lifecycle = KeyCache(FileKeys(setup.jwks), clock), Lifecycle(clock)
    known = settings(setup)
    deps = WorkerDeps(
        settings=known,
        documents=_store(mode, setup),
        push_verifier=PushVerifier(known.push_auth, known.push_service_account, keys, clock),
        workload=InstantWork(),
        clock=clock,
        lifecycle=lifecycle,
        metrics=Metrics(),
        revision="bench",
    )
    app = WorkerApp(deps)
    if mode == "unclaimed":
        tools = ClaimTools(deps.documents, known, clock, deps.metrics, lifecycle)
        app._claims = Unclaimed(tools, owner="bench")  # noqa: SLF001 - no worker of ours goes without
    await keys.load()
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    await serve(server_of(app, deps), lifecycle, port=port, listener=listener, on_bound=spare_the_collector)


if __name__ == "__main__":
    logs.configure("worker", for_good=True)
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
