"""A worker that a broker pushes to: the real application on a loopback port, over any store."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from runtime.adapters.clock import SystemClock
from runtime.contract.dead_letter import message_key
from runtime.contract.names import DEAD_LETTERS
from runtime.contract.outcomes import OUTCOMES
from runtime.http.server.answer import Answer
from runtime.http.server.limits import Limits
from runtime.http.server.request import Request
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Documents, Key, Value
from runtime.server import Lifecycle
from runtime.worker.app import WorkerApp, server_of
from runtime.worker.deps import WorkerDeps
from sandbox.network import Address
from tests.support.claims import settings
from tests.support.deliveries import ScriptedWorkload
from tests.support.pushing_brokers import ATTEMPTS, Ground, PushingBroker
from tests.support.worlds import PUSH, WORKER_URL


@dataclass
class PushedWorker:
    """What a test asks of it."""

    documents: Documents
    subscription: str
    address: Address = field(default_factory=Address)
    workload: ScriptedWorkload = field(default_factory=ScriptedWorkload)
    lifecycle: Lifecycle = field(default_factory=lambda: Lifecycle(SystemClock()))
    metrics: Metrics = field(default_factory=Metrics)

    async def claim(self, message_id: str) -> dict[str, Value]:
        """The claim of a message; empty where there is none."""
        document = await self.documents.get(Key("pubsub-claims", message_key(self.subscription, message_id)))
        return {} if document is None else dict(document.data)

    async def letter(self, message_id: str) -> dict[str, Value]:
        """The dead letter of a message; empty where there is none."""
        document = await self.documents.get(Key(DEAD_LETTERS, message_key(self.subscription, message_id)))
        return {} if document is None else dict(document.data)

    @property
    def answers(self) -> dict[str, int]:
        """How often each reason was answered."""
        value = self.metrics.registry.get_sample_value
        counted = {code: int(value("deliveries_total", {"outcome": code}) or 0) for code in OUTCOMES}
        return {code: count for code, count in counted.items() if count}


@asynccontextmanager
async def pushed_worker(
    ground: Ground,
    broker: PushingBroker,
    documents: Documents,
    *,
    keys: KeyCache | None = None,
    before_answer: Callable[[], None] = lambda: None,
    **changes: Any,
) -> AsyncIterator[PushedWorker]:
    """A worker that the broker's pushes reach; its application closes the store at the end, as in production.

    Args:
        ground: who is who.
        broker: what pushes to it.
        documents: its store.
        keys: of the tokens; None: the ground's, fetched when the first push arrives.
        before_answer: called when an answer is ready, before it is sent; each is the last of its connection.
        changes: of the settings.
    """
    clock = SystemClock()
    given = settings(
        subscription=broker.subscription, push_service_account=PUSH, push_audience=WORKER_URL,
        **{"broker_attempts": ATTEMPTS, **changes},
    )  # fmt: skip
    worker = PushedWorker(documents, broker.subscription)
    verifier = PushVerifier(given.push_auth, PUSH, keys or KeyCache(ground.keys, clock), clock)
    deps = WorkerDeps(
        settings=given, documents=documents, push_verifier=verifier, workload=worker.workload, clock=clock,
        lifecycle=worker.lifecycle, metrics=worker.metrics,
    )  # fmt: skip
    server = server_of(_OnePushAConnection(deps, before_answer), deps, Limits(linger=0.1))
    await server.start()
    worker.address = Address(port=await server.listen(0, socket.create_server(("127.0.0.1", 0))))
    broker.hosts.add(WORKER_URL.removeprefix("https://"), worker.address)
    worker.lifecycle.ready()
    yield worker
    worker.lifecycle.drain()
    await worker.lifecycle.settled(8)
    await server.stop()


class _OnePushAConnection(WorkerApp):
    """A worker whose every answer is the last of its connection."""

    def __init__(self, deps: WorkerDeps, before_answer: Callable[[], None]) -> None:
        super().__init__(deps)
        self._before_answer = before_answer

    def handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        answer = super().handle(request)
        return answer if isinstance(answer, Answer) else self._last(answer)

    async def _last(self, working: Coroutine[Any, Any, Answer]) -> Answer:
        answer = await working
        self._before_answer()
        return replace(answer, last=True)
