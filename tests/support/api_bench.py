"""The API's parts over one store in memory, without sockets, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import MemoryDocuments
from runtime.api.callbacks import Callbacks
from runtime.api.cancellation import Cancellations
from runtime.api.dead_letters import DeadLetters
from runtime.api.dispatch import Dispatcher, DispatchRules
from runtime.api.event_feed import EventFeed
from runtime.api.event_log import EventLog
from runtime.api.letter_store import LetterStore
from runtime.api.payloads import Payloads
from runtime.api.replay import Replays
from runtime.api.report import read_events, read_progress
from runtime.api.run_record import RunRecord
from runtime.api.run_request import RunRequest, RunRules, read_run_request
from runtime.api.run_store import Change, RunStore
from runtime.api.submission import Submissions
from runtime.api.sweeper import Sweeper
from runtime.api.transitions import cancel
from runtime.api.watch import RunWatch
from runtime.contract import names
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.keys import generate_job_keys
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Key, Query, Value
from runtime.ports.publisher import PublishRefused, PublishUnavailable
from tests.support.faulty_documents import FaultyDocuments

KEYS = generate_job_keys()
KID = "backend-es256-v1"
BASE_URL = "https://api-123456789012.europe-west1.run.app"
TOPIC = "projects/p-test/topics/execution-jobs"
FLOW: dict[str, object] = {"nodes": [{"id": "a", "type": "constant", "value": 1}], "edges": []}
DAY = timedelta(days=1)
COLLECTIONS = (names.RUNS, names.RUN_PAYLOADS, names.RUN_RESULTS, names.RUN_EVENTS)

T = TypeVar("T")


class Engines:
    """A catalogue of a flow engine that wants a list of nodes, and of one entry point."""

    def names(self) -> list[str]:
        return ["flow", "report"]

    def check(self, name: str, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        if name != "flow":
            return []
        nodes = spec.get("nodes")
        if not isinstance(nodes, list):
            return [("/nodes", "must be a list of nodes")]
        return [(f"/nodes/{i}/id", "is required") for i, node in enumerate(nodes) if "id" not in node]


@dataclass
class ScriptedPublisher:
    """Keeps what is published; `says` is `ok`, or how it fails: see `publish`."""

    clock: ManualClock
    says: str = "ok"
    tries: int = 0
    messages: list[tuple[str, dict[str, Any], Mapping[str, str]]] = field(default_factory=list)
    closed: bool = False

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str], *, timeout: float = 10) -> str:
        self.tries += 1
        await asyncio.sleep(0)
        match self.says:
            case "unavailable":
                raise PublishUnavailable("no answer")
            case "refused":
                raise PublishRefused("no such topic")
            case "broken":
                raise ZeroDivisionError
            case "hangs":
                await self.clock.sleep(1e9)
        self.messages.append((topic, json.loads(data), dict(attributes)))
        if self.says == "lost answer":
            raise PublishUnavailable("the answer was lost")
        return str(len(self.messages))

    async def close(self) -> None:
        self.closed = True


class ApiBench:
    """Everything between the routes and the store.

    Args:
        max_queue_age: of runs.
        run_lease: longest lease.
    """

    def __init__(self, *, max_queue_age: timedelta = DAY, run_lease: timedelta = timedelta(seconds=150)) -> None:
        self.clock = ManualClock()
        self.store = MemoryDocuments(self.clock, indexes=names.INDEXES)
        self.documents = FaultyDocuments(self.store)
        self.metrics = Metrics()
        self.watch = RunWatch(self.clock)
        self.draining = asyncio.Event()
        self.runs = RunStore(self.documents, self.clock, self.watch, self.metrics, timedelta(days=7))
        self.publisher = ScriptedPublisher(self.clock)
        rules = DispatchRules(topic=TOPIC, callback_url=BASE_URL, token_life=timedelta(seconds=87300))
        self.verifier = JobVerifier(KEYS.public_pem, KID)
        dispatcher = Dispatcher(self.publisher, JobSigner(KEYS.private_pem, KID), rules, self.clock, self.metrics)
        self.submissions = Submissions(self.runs, dispatcher, self.clock, max_queue_age)
        self.callbacks = Callbacks(self.runs, run_lease)
        self.cancellations = Cancellations(self.runs, self.watch, self.clock, self.draining)
        self.sweeper = Sweeper(self.documents, self.runs, dispatcher, self.clock, self.metrics, self.draining)
        self.letters = LetterStore(self.documents)
        self.dead_letters = DeadLetters(self.letters, self.runs, self.verifier, self.clock, self.metrics)
        self.replays = Replays(self.letters, self.runs, Payloads(self.documents), dispatcher, max_queue_age)
        self.log = EventLog(self.documents)
        self.feed = EventFeed(self.runs, self.log, self.watch, self.clock, self.draining)

    async def accept(self, **body: Any) -> RunRecord:
        """Submits a run and returns it."""
        return (await self.submissions.submit(request(**body), "shop")).record

    async def record(self, run_id: str = "r1") -> RunRecord:
        return (await self.runs.get(run_id)).record

    async def lease(self, token: str, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        return await self.progress(token, "running", run_id, **more)

    async def progress(self, token: str, status: str, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        body = {"job_id": f"{run_id}.1", "lease_token": token, "status": status, **more}
        return await self.callbacks.progress(run_id, read_progress(json.dumps(body).encode()))

    async def events(self, token: str, *sequences: int, run_id: str = "r1", attempt: int = 1) -> dict[str, Any]:
        events = [event(run_id, attempt, sequence) for sequence in sequences]
        body = {"job_id": f"{run_id}.1", "lease_token": token, "events": events}
        return await self.callbacks.events(run_id, read_events(json.dumps(body).encode()))

    async def cancel(self, run_id: str = "r1") -> RunRecord:
        record, _ = await self.runs.change(run_id, lambda record, now: Change(None, cancel(record, now)))
        return record

    async def stored(self, collection: str, id_: str) -> Mapping[str, Value] | None:
        document = await self.store.get(Key(collection, id_))
        return None if document is None else document.data

    async def everything(self) -> dict[str, list[str]]:
        """Ids of all documents of runs, by collection; empty collections are left out."""
        found = {name: await self.store.query(Query(name)) for name in COLLECTIONS}
        return {name: [document.key.id for document in rows] for name, rows in found.items() if rows}

    async def within(self, work: Coroutine[Any, Any, T], *, step: float = 0.5) -> T:
        """The result of work that waits, while the clock goes on."""
        task = asyncio.create_task(work)
        await self.clock.advance(0)
        while not task.done():
            await self.clock.advance(step)
        return await task


def request(**changes: Any) -> RunRequest:
    """A run of the flow engine with id `r1`, changed."""
    rules = RunRules(engines=Engines(), timeout_max=timedelta(seconds=540), max_attempts=3)
    body = {"run_id": "r1", "engine": "flow", "flow": FLOW, "input": {"n": 1}, **changes}
    return read_run_request(json.dumps(body).encode(), rules)


def event(run_id: str, attempt: int, sequence: int, payload: object = None) -> dict[str, object]:
    """An event as a worker sends it."""
    return {
        "id": "evt-" + hashlib.sha256(f"{run_id}:{attempt}:{sequence}".encode()).hexdigest(),
        "sequence": sequence,
        "event_type": "progress",
        "payload": {"n": sequence} if payload is None else payload,
        "timestamp": "2026-01-01T00:00:00Z",
    }
