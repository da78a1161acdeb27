"""Deliveries to workers over one store in memory, without sockets, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from runtime.adapters.clock import ManualClock
from runtime.contract.envelope import PushEnvelope
from runtime.contract.names import DEAD_LETTER_PAYLOADS, DEAD_LETTERS
from runtime.contract.states import FailureClass
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents, Query
from runtime.server import Lifecycle
from runtime.worker.claim import Claims
from runtime.worker.delivery import deliver
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import ClaimTools
from runtime.worker.request import PushRequest
from runtime.worker.workload import Ended, JobFacts, UnusableMessage, Workload
from tests.support.claims import SUBSCRIPTION, ClaimsBench
from tests.support.push_tokens import PushIdentity

Run = Callable[[asyncio.Event], Awaitable[Ended | None]]
"""What a scripted job does; it is given the event that asks it to stop."""


def envelope(
    data: bytes | str = b"{}", *, message_id: str = "1001", attempt: int | None = None, **message: Any
) -> bytes:
    """A push body. `data` as text is sent as it is, without encoding it."""
    encoded = data if isinstance(data, str) else base64.b64encode(data).decode()
    body: dict[str, Any] = {
        "message": {"data": encoded, "messageId": message_id, "publishTime": "2026-11-30T12:00:00Z", **message},
        "subscription": SUBSCRIPTION,
    }
    if attempt is not None:
        body["deliveryAttempt"] = attempt
    return json.dumps(body).encode()


GOOD = envelope()


async def completed(_stop: asyncio.Event) -> Ended:
    return Ended("completed")


@dataclass
class ScriptedWorkload:
    """A workload that does what the test says.

    Attributes:
        run: what every job does.
        unusable: raised for every message instead of giving a job; None reads them all.
        facts: of every job.
        runs: how many jobs have begun.
        active: how many are running now.
        most_active: the highest that was.
        given_up: what `give_up` was called with.
        give_up: what it does; may raise.
    """

    run: Run = completed
    unusable: UnusableMessage | None = None
    facts: JobFacts = field(default_factory=lambda: JobFacts(run_id="run-1", job_id="run-1.1"))
    runs: int = 0
    active: int = 0
    most_active: int = 0
    given_up: list[tuple[FailureClass, FailureClass | None, str]] = field(default_factory=list)
    give_up: Callable[[], Awaitable[None]] | None = None
    closed: bool = False
    failed_code: str = "execution_failed"

    async def read(self, _message: PushEnvelope) -> ScriptedJob:
        if self.unusable is not None:
            raise self.unusable
        return ScriptedJob(self)

    async def close(self) -> None:
        self.closed = True


class ScriptedJob:
    def __init__(self, workload: ScriptedWorkload) -> None:
        self._workload = workload
        self.facts = workload.facts

    async def run(self, *, deadline: float, stop: asyncio.Event) -> Ended | None:
        del deadline
        workload = self._workload
        workload.runs += 1
        workload.active += 1
        workload.most_active = max(workload.most_active, workload.active)
        try:
            return await workload.run(stop)
        finally:
            workload.active -= 1

    async def give_up(
        self, failure_class: FailureClass, last: FailureClass | None, error: str, *, deadline: float
    ) -> None:
        del deadline
        self._workload.given_up.append((failure_class, last, error))
        if self._workload.give_up is not None:
            await self._workload.give_up()


class DeliveryBench(ClaimsBench):
    """One store, one push identity, one workload for every process that is not given another."""

    def __init__(self, clock: ManualClock, **changes: Any) -> None:
        super().__init__(clock, **changes)
        self.identity = PushIdentity(clock)
        self.workload = ScriptedWorkload()

    def worker(
        self, store: Documents | None = None, workload: Workload | None = None, clock: Clock | None = None
    ) -> Worker:
        return Worker(self, store or self.store, workload or self.workload, clock or self.clock)

    async def letters(self) -> list[dict[str, object]]:
        return [dict(one.data) for one in await self.memory.query(Query(DEAD_LETTERS))]

    async def letter_payloads(self) -> list[dict[str, object]]:
        return [dict(one.data) for one in await self.memory.query(Query(DEAD_LETTER_PAYLOADS))]


class Worker:
    """One process, with its own way to the store."""

    def __init__(self, bench: DeliveryBench, store: Documents, workload: Workload, clock: Clock) -> None:
        self.bench = bench
        self.metrics = Metrics()
        self.lifecycle = Lifecycle(clock)
        self.lifecycle.ready()
        self.deps = WorkerDeps(
            settings=bench.settings,
            documents=store,
            push_verifier=bench.identity.verifier(bench.settings),
            workload=workload,
            clock=clock,
            lifecycle=self.lifecycle,
            metrics=self.metrics,
            revision="rev-1",
        )
        tools = ClaimTools(store, bench.settings, clock, self.metrics, self.lifecycle)
        self.claims = Claims(tools, owner="rev-1/x")

    async def deliver(self, content: bytes = GOOD, **request: Any) -> str:
        """The reason code of one delivery; a good token and a plain body unless `request` says otherwise."""
        answer = await deliver(self.deps, self.claims, self.request(content, **request))
        return answer.code

    def start(self, content: bytes = GOOD) -> asyncio.Task[str]:
        delivery = asyncio.create_task(self.deliver(content))
        self.lifecycle.track(delivery)
        return delivery

    def request(self, content: bytes, **changes: Any) -> PushRequest:
        values: dict[str, Any] = {
            "authorization": (b"Bearer " + self.bench.identity.token(),),
            "host": "worker-abc-uc.a.run.app",
            "content_length": len(content),
            "body": lambda: _chunks(content),
            **changes,
        }
        return PushRequest(**values)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 65536):
        yield content[start : start + 65536]


class RaisingBody:
    """A body whose reading fails."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __aiter__(self) -> RaisingBody:
        return self

    async def __anext__(self) -> bytes:
        raise self._error
