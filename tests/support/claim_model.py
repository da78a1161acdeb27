"""What must hold of a message's claim and of the work in its name, whatever its owners meet.

A broker that repeats as it likes, owners with wrong clocks, and a store that is watched write by write.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import documents as memory
from runtime.contract.envelope import PushEnvelope
from runtime.contract.names import TTL_FIELD
from runtime.contract.outcomes import OUTCOMES, Verdict
from runtime.contract.states import FailureClass
from runtime.ports.documents import Key, Value, Version, Write
from runtime.worker.claim_record import ClaimRecord, ClaimState
from runtime.worker.workload import Ended, JobFacts
from tests.support.deliveries import DeliveryBench, envelope
from tests.support.owners import OwnerClock, OwnerStore

RETENTION: Final = timedelta(days=1)
"""Of messages; the claims' is the same, the least that the rules allow."""
BROKER_ATTEMPTS: Final = 20


class WatchedDocuments(memory.MemoryDocuments):
    """A store that notes every write of a claim that the rules do not allow."""

    def __init__(self, clock: ManualClock, collection: str, stale_after: timedelta) -> None:
        super().__init__(clock)
        self._collection = collection
        self._stale_after = stale_after
        self.faults: list[str] = []
        self.completed: set[str] = set()
        self.done: set[str] = set()
        """Tokens whose work has had its effect."""

    def effect(self, key: Key) -> None:
        """The work of a claim's present owner has had its effect."""
        row = self._rows(key.collection).get(key.id)
        if row is not None:
            self.done.add(ClaimRecord.read(row.data).token)

    def _apply(self, write: Write, data: dict[str, Value], now: datetime) -> Version:
        before = self._rows(write.key.collection).get(write.key.id)
        version = super()._apply(write, data, now)
        if write.key.collection == self._collection:
            self._judge(before, ClaimRecord.read(data), now)
            if not isinstance(data[TTL_FIELD], datetime):
                self.faults.append(f"a claim without its end: {data}")
        return version

    def _judge(self, row: memory._Row | None, after: ClaimRecord, now: datetime) -> None:
        if after.state is ClaimState.COMPLETED:
            self.completed.add(after.message_id)
        if row is None:
            given_back = after.state is ClaimState.RELEASED
            if after.message_id in self.completed or (after.attempts, after.excused) != (1, int(given_back)):
                self.faults.append(f"a claim that begins as {after}")
            return
        before = ClaimRecord.read(row.data)
        if after.attempts < before.attempts or after.excused < before.excused:
            self.faults.append(f"attempts went down: {before} -> {after}")
        if before.state is ClaimState.COMPLETED:
            self.faults.append(f"a completed claim was written: {after}")
        if before.state is ClaimState.DEAD_LETTERED and after.state is not ClaimState.DEAD_LETTERED:
            self.faults.append(f"a dead letter came back: {after}")
        stale = before.state is ClaimState.IN_PROGRESS and now - row.updated_at >= self._stale_after
        if after.token != before.token and after.attempts != before.attempts + 1:
            self.faults.append(f"a new owner that is not counted: {before} -> {after}")
        if after.state is ClaimState.RELEASED and after.token in self.done:
            self.faults.append(f"what was done is released as undone: {after}")
        if after.token != before.token and before.state is not ClaimState.RELEASED and not stale:
            self.faults.append(f"a live claim was taken: {before} -> {after}")


@dataclass(eq=False)
class Message:
    """One message, and what has become of it."""

    id: str
    published: datetime
    deliveries: int = 0
    acknowledged: bool = False
    effects: int = 0
    owners: set[int] = field(default_factory=set)
    """Numbers of those that it was delivered to."""
    attempts: int = 0
    """Works that were begun, but for those whose end is excused."""
    silences: int = 0
    """Times that one of its owners died, stalled, lost its way to the store, or was told to leave it."""


@dataclass(eq=False)
class Work:
    """One job under way."""

    message: Message
    owner: Owner
    lag: float
    told: bool = False
    stalled: bool = False
    """Its process has had no CPU for a while since it began."""
    finish: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False)
class Owner:
    """One process that works messages; after its end another one is in its place."""

    model: ClaimModel
    number: int
    lag: float = 0.0
    facts: JobFacts = field(default_factory=lambda: JobFacts(run_id="run-1", job_id="run-1.1"))
    failed_code: str = "execution_failed"

    def __post_init__(self) -> None:
        world = self.model.clock
        self.clock = OwnerClock(world)
        self.store = OwnerStore(self.model.documents, self.clock, world)
        self.store.on_death = self.die
        self.worker = self.model.bench.worker(self.store, self, self.clock)

    @property
    def alive(self) -> bool:
        return not self.store.dead

    def die(self) -> None:
        """Ends it as kill -9 does: nothing of it runs, and no call of it does anything any more."""
        self.store.dead = True
        self.clock.stall()
        self.model.silent(self)
        self.model.works = [work for work in self.model.works if work.owner is not self]
        for task in self.worker.lifecycle.in_flight:
            task.cancel()

    async def read(self, message: PushEnvelope) -> OwnerJob:
        return OwnerJob(self, self.model.messages[message.message_id])

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class OwnerJob:
    """Works until the model says how it ends, or it is told to stop."""

    owner: Owner
    message: Message

    @property
    def facts(self) -> JobFacts:
        return self.owner.facts

    async def run(self, *, deadline: float, stop: asyncio.Event) -> Ended | None:
        del deadline
        model = self.owner.model
        work = Work(self.message, self.owner, self.owner.lag)
        model.began(work)
        stopping = asyncio.create_task(stop.wait())
        try:
            if model.healthy is not None:
                work.finish.set_result(model.healthy)
            waits: set[asyncio.Future[Any]] = {stopping, work.finish}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not work.finish.done():
                work.told = True
                await self.owner.clock.sleep(work.lag)
                return None
            code = work.finish.result()
            self.message.attempts -= OUTCOMES[code].excused
            if code == "completed" and self.owner.alive:
                self.message.effects += 1
                model.documents.effect(model.bench.key(self.message.id))
            return Ended(code)
        finally:
            stopping.cancel()
            model.works = [other for other in model.works if other is not work]

    async def give_up(
        self, failure_class: FailureClass, last: FailureClass | None, error: str, *, deadline: float
    ) -> None:
        """There is no run to be told."""


class ClaimModel:
    """Owners, messages, and the broker between them.

    Attributes:
        healthy: how every further work ends at once; None leaves it to the model's user.
        faults: what did not hold.
    """

    def __init__(self, owners: int, *, counted: bool, ceiling: int) -> None:
        self.clock = ManualClock()
        self.counted = counted
        self.ceiling = ceiling
        broker_attempts = BROKER_ATTEMPTS if counted else None
        self.bench = DeliveryBench(self.clock, heartbeat=60, broker_attempts=broker_attempts, max_attempts=ceiling)
        settings = self.bench.settings
        self.documents = WatchedDocuments(self.clock, settings.claims_collection, settings.stale_after)
        self.bench.memory = self.documents
        self.owners = [Owner(self, number) for number in range(owners)]
        self.messages: dict[str, Message] = {}
        self.works: list[Work] = []
        self.deliveries: dict[asyncio.Task[str], Message] = {}
        self.healthy: str | None = None
        self._numbers = itertools.count(1001)

    @property
    def faults(self) -> list[str]:
        return self.documents.faults

    def message(self, *, second: bool = False) -> Message:
        """The last message, or the one before it; new ones where those are too old to be delivered."""
        while len(young := [each for each in self.messages.values() if self._young(each)]) < 1 + second:
            id_ = str(next(self._numbers))
            self.messages[id_] = Message(id_, self.clock.now())
        return young[-1 - second]

    def deliverable(self, message: Message) -> bool:
        """Whether the broker still has it, or may still repeat it."""
        return self._young(message) and message.deliveries < BROKER_ATTEMPTS

    def _young(self, message: Message) -> bool:
        return self.clock.now() - message.published < RETENTION

    def deliver(self, message: Message, owner: Owner, *, lag: float = 0.0) -> None:
        message.deliveries += 1
        message.owners.add(owner.number)
        owner.lag = lag
        attempt = message.deliveries if self.counted else None
        content = envelope(message_id=message.id, attempt=attempt)
        self.deliveries[owner.worker.start(content)] = message

    def began(self, work: Work) -> None:
        if work.message.id in self.documents.completed:
            self.faults.append(f"completed message {work.message.id} is worked again")
        work.message.attempts += 1
        self.works.append(work)
        # A process that has stalled learns of its loss when it goes on; until then only its claim stops it.
        there = [w for w in self.works if w.message is work.message and not w.owner.clock.stalled]
        if sum(not (each.told and each.stalled) for each in there) > 1:
            self.faults.append(f"two owners work on {work.message.id}")

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.documents.delete_expired([self.bench.settings.claims_collection], TTL_FIELD)
        for delivery in [each for each in self.deliveries if each.done()]:
            message = self.deliveries.pop(delivery)
            if not delivery.cancelled():
                await self._answered(message, delivery.result())
        await self._judge_letters()
        for number, owner in enumerate(self.owners):
            if not owner.alive:
                self.owners[number] = Owner(self, number)

    def silent(self, owner: Owner) -> None:
        """An owner is, or seems, gone: what it has may count as an attempt."""
        for message in self.messages.values():
            message.silences += owner.number in message.owners

    async def _judge_letters(self) -> None:
        for letter in await self.bench.letters():
            message = self.messages[str(letter["message_id"])]
            exhausted = letter["reason"] == "max_delivery_attempts_exceeded"
            if exhausted and message.attempts + message.silences < self.ceiling:
                self.faults.append(f"{message} is given up for attempts that it has not had: {letter}")

    async def _answered(self, message: Message, code: str) -> None:
        message.silences += code == "claim_lost"
        if OUTCOMES[code].verdict is not Verdict.ACK:
            return
        message.acknowledged = True
        dead = code == "dead_letter_window_exhausted"
        if not (message.id in await self.letters() if dead else message.effects):
            self.faults.append(f"message {message.id} was acknowledged with {code}, and nothing came of it")

    def interrupt(self, message: Message) -> None:
        """Cancels a message's deliveries, as a server at the end of its patience does."""
        message.silences += 1
        for delivery, of in self.deliveries.items():
            if of is message:
                delivery.cancel()

    async def letters(self) -> set[str]:
        return {str(letter["message_id"]) for letter in await self.bench.letters()}

    async def come_to_rest(self, healthy: str) -> None:
        """No more troubles: every message must come to its end."""
        self.healthy = healthy
        for owner in self.owners:
            owner.store.troubles.clear()
            owner.store.cut_until = 0.0
            owner.clock.go_on()
        for work in self.works:
            if not work.finish.done():
                work.finish.set_result(healthy)
        await self.advance(700)
        for message in self.messages.values():
            while not await self._ended(message) and self.deliverable(message):
                self.deliver(message, self.owners[0])
                await self.advance(200)
            if self.deliverable(message) and not await self._ended(message):
                self.faults.append(f"message {message.id} came to no end")
        if self.deliveries or self.works:
            self.faults.append(f"something is left: {self.deliveries} {self.works}")

    async def _ended(self, message: Message) -> bool:
        return (message.acknowledged and message.effects > 0) or message.id in await self.letters()
