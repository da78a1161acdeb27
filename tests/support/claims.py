"""Claims of a worker over a store in memory, on a clock that the test moves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import MemoryDocuments
from runtime.contract.dead_letter import message_key
from runtime.contract.outcomes import Outcome
from runtime.contract.settings.words import Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Document, Key
from runtime.server import Lifecycle
from runtime.worker.claim import Claims
from runtime.worker.guard import ClaimTools, Guard
from tests.support.faulty_documents import FaultyDocuments

SUBSCRIPTION = "projects/p-test/subscriptions/exec-sub"
AUDIENCE = "https://worker-abc-uc.a.run.app"
PUSH_ACCOUNT = "push@p-test.iam.gserviceaccount.com"


def settings(**changes: Any) -> WorkerSettings:
    """Settings of the fixtures, with room to take a claim over after parking; seconds may be plain numbers."""
    values: dict[str, Any] = {
        "workload": Workload.EXECUTION,
        "project_id": "p-test",
        "subscription": SUBSCRIPTION,
        "push_service_account": PUSH_ACCOUNT,
        "push_audience": AUDIENCE,
        "request_timeout": 600,
        "process_timeout": 570,
        "run_timeout": 240,
        **changes,
    }
    durations = ("request_timeout", "process_timeout", "run_timeout", "heartbeat", "stale_after", "ack_deadline")
    for name in durations:
        if isinstance(values.get(name), int):
            values[name] = timedelta(seconds=values[name])
    return WorkerSettings(**values)


class ClaimsBench:
    """One store, any number of processes that claim in it."""

    def __init__(self, clock: ManualClock, **changes: Any) -> None:
        self.clock = clock
        self.settings = settings(**changes)
        self.memory = MemoryDocuments(clock)
        self.store = FaultyDocuments(self.memory)

    def process(self, name: str = "a") -> ClaimsProcess:
        return ClaimsProcess(self, name)

    def key(self, message_id: str = "1001") -> Key:
        return Key(self.settings.claims_collection, message_key(SUBSCRIPTION, message_id))

    async def document(self, message_id: str = "1001") -> Document | None:
        return await self.memory.get(self.key(message_id))

    async def field(self, name: str, message_id: str = "1001") -> object:
        document = await self.document(message_id)
        assert document is not None, "the claim is there"
        return document.data[name]


class ClaimsProcess:
    """One process's claims."""

    def __init__(self, bench: ClaimsBench, name: str) -> None:
        self.bench = bench
        self.metrics = Metrics()
        self.lifecycle = Lifecycle(bench.clock)
        tools = ClaimTools(bench.store, bench.settings, bench.clock, self.metrics, self.lifecycle)
        self.claims = Claims(tools, owner=name)

    async def acquire(
        self, message_id: str = "1001", *, attempt: int | None = None, within: float = 570
    ) -> Guard | Outcome:
        deadline = self.bench.clock.monotonic() + within
        return await self.claims.acquire(message_id, attempt, deadline=deadline)

    async def own(self, message_id: str = "1001") -> Guard:
        guard = await self.acquire(message_id)
        assert isinstance(guard, Guard), f"expected to own the claim, got {guard}"
        return guard

    async def refused(self, message_id: str = "1001", *, attempt: int | None = None, within: float = 0) -> str:
        """The answer's code; with the default `within` nothing is waited for."""
        answer = await self.acquire(message_id, attempt=attempt, within=within)
        assert isinstance(answer, Outcome), "expected an answer, got the claim"
        return answer.code

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
