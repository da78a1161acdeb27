"""P4: who works on a message. One conditional document a message decides it, whatever the number of deliveries."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from runtime.contract.dead_letter import message_keys
from runtime.contract.limits import SETTLE_BUDGET
from runtime.contract.outcomes import Outcome, outcome
from runtime.contract.states import FailureClass
from runtime.execution.signal import Signal
from runtime.ports.documents import (
    Create,
    Document,
    DocumentExists,
    Key,
    Replace,
    StoreError,
    StoreUnavailable,
    Version,
    VersionMismatch,
    Write,
)
from runtime.worker.claim_record import ClaimRecord, ClaimState
from runtime.worker.guard import STORE_CALL, ClaimTools, Guard
from runtime.worker.waiting import wait_first

ROUNDS: Final = 3
"""Looks at a claim that keeps changing before the delivery gives up."""
LONGEST_POLL: Final = 15.0
"""Longest pause between two looks at a live claim, seconds."""
SHORTEST_POLL: Final = 1.0
"""Shortest such pause, seconds."""

log = structlog.get_logger()


class _Bid(Struct):
    """One delivery's wish to own a message."""

    message_id: str
    delivery_attempt: int | None
    deadline: float
    key: Key
    token: str
    parked: bool = False
    """It has waited: what it takes now must still fit into the time that is left."""
    looked: bool = False
    """It knows that there was a document: the first write is tried blindly."""
    unclear: Guard | None = None
    """What a write of it took, if it was applied: the document will tell by the token."""
    sent_at: float = 0.0
    """When its last write was sent."""


class _InFlight(Struct, frozen=True):
    """Another delivery owns the message and is alive."""

    record: ClaimRecord
    age: timedelta


class Claims:
    """The claims of one subscription.

    Args:
        tools: store, settings, clock, metrics, life of the process.
        owner: name of this process in the documents, for people.
    """

    def __init__(self, tools: ClaimTools, *, owner: str) -> None:
        self._tools = tools
        self.owner = owner
        self._draining = tools.lifecycle.draining
        self._parked: dict[Key, set[Signal]] = {}
        self._key = message_keys(tools.settings.subscription)
        self._workload = str(tools.settings.workload)
        self._tokens = map(f"{secrets.token_hex(12)}-{{:x}}".format, itertools.count())
        self._random = random.Random()  # noqa: S311 - spreads polls, guards nothing

    async def acquire(self, message_id: str, delivery_attempt: int | None, *, deadline: float) -> Guard | Outcome:
        """Takes a message's claim, waiting for a live owner where there is one.

        Args:
            message_id: the broker's.
            delivery_attempt: the broker's count; None where it sends none.
            deadline: of the whole delivery, on the monotonic clock.

        Returns:
            A Guard to be entered at once, or the answer where there is nothing to own.
        """
        key = Key(self._tools.settings.claims_collection, self._key(message_id))
        bid = _Bid(message_id, delivery_attempt, deadline, key, next(self._tokens))
        if self._draining.is_set():
            return outcome("worker_shutdown")
        owned = False
        try:
            seen = await self._sight(bid)
            answer = await self._park(bid, seen) if isinstance(seen, _InFlight) else seen
            owned = isinstance(answer, Guard)
            return answer
        finally:
            if bid.unclear is not None and not owned:
                bid.unclear.withdraw("claim_store_unavailable")

    async def _sight(self, bid: _Bid) -> Guard | Outcome | _InFlight:
        """One decision; looks again where the claim changed under it."""
        for turn in range(ROUNDS):
            try:
                return await self._look(bid)
            except (DocumentExists, VersionMismatch):
                continue
            except StoreUnavailable as error:
                log.warning("claim_store_unavailable", error=str(error), unclear=bid.unclear is not None)
                if bid.unclear is None:
                    break
                await self._tools.clock.sleep(turn + 1)
            except StoreError as error:
                log.error("claim_store_refused", code=error.code, error=str(error))  # noqa: TRY400 - the code says it all
                break
        else:
            log.warning("claim_contended", rounds=ROUNDS)
        return outcome("claim_store_unavailable")

    async def _look(self, bid: _Bid) -> Guard | Outcome | _InFlight:
        if not bid.looked:
            # The common case costs one write: nobody has seen the message before.
            bid.looked = True
            try:
                return await self._create(bid)
            except DocumentExists:
                pass
        document = await self._tools.documents.get(bid.key, timeout=STORE_CALL)
        if document is None:
            return await self._create(bid)
        if document.data.get("state") == ClaimState.COMPLETED:
            return outcome("duplicate_settled")
        record = ClaimRecord.read(document.data)
        if record.state is ClaimState.DEAD_LETTERED:
            return await self._count_dead(bid, document, record)
        if record.token == bid.token:
            log.info("claim_recognised", attempts=record.attempts)
            return self._guard(bid, record, document.version)
        if record.state is ClaimState.IN_PROGRESS and document.age < self._tools.settings.stale_after:
            return _InFlight(record, document.age)
        return await self._take_over(bid, document, record)

    async def _create(self, bid: _Bid) -> Guard | Outcome:
        now = self._tools.clock.now()
        now_ms = _milliseconds(now)
        record = ClaimRecord(
            message_id=bid.message_id,
            subscription=self._tools.settings.subscription,
            workload=self._workload,
            state=ClaimState.IN_PROGRESS,
            owner=self.owner,
            token=bid.token,
            attempts=1,
            claimed_at_ms=now_ms,
            heartbeat_at_ms=now_ms,
        )
        return await self._own(bid, record, None, now)

    async def _take_over(self, bid: _Bid, document: Document, before: ClaimRecord) -> Guard | Outcome:
        stale = before.state is ClaimState.IN_PROGRESS
        now = self._tools.clock.now()
        now_ms = _milliseconds(now)
        record = replace(
            before,
            state=ClaimState.IN_PROGRESS,
            owner=self.owner,
            token=bid.token,
            attempts=before.attempts + 1,
            outcome_code="",
            failure_class=str(FailureClass.DISPATCH_ERROR) if stale else before.failure_class,
            claimed_at_ms=now_ms,
            heartbeat_at_ms=now_ms,
        )
        taken = await self._own(bid, record, document, now)
        if stale and isinstance(taken, Guard):
            self._tools.metrics.claim_takeovers.inc()
            age = int(document.age.total_seconds())
            log.warning("claim_taken_over", owner=before.owner, attempts=record.attempts, age_seconds=age)
        return taken

    async def _own(self, bid: _Bid, record: ClaimRecord, document: Document | None, now: datetime) -> Guard | Outcome:
        clock, settings = self._tools.clock, self._tools.settings
        if bid.parked and bid.deadline - clock.monotonic() < settings.run_timeout.total_seconds() + SETTLE_BUDGET:
            return outcome("not_enough_time")
        data = record.data(now + settings.claim_retention)
        write: Write = Create(bid.key, data) if document is None else Replace(bid.key, data, document.version)
        bid.sent_at = clock.monotonic()
        try:
            (version,) = await self._tools.documents.commit([write], timeout=STORE_CALL)
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if not isinstance(error, StoreUnavailable) or error.unclear:
                bid.unclear = self._guard(bid, record, None if document is None else document.version)
            raise
        return self._guard(bid, record, version)

    def _guard(self, bid: _Bid, record: ClaimRecord, version: Version | None) -> Guard:
        return Guard(self._tools, bid.key, record, version, bid.sent_at, self._wake)

    async def _count_dead(self, bid: _Bid, document: Document, record: ClaimRecord) -> Outcome:
        """A delivery after the letter: counted where the store lets us, answered in any case."""
        record = replace(record, attempts=record.attempts + 1)
        data = record.data(self._tools.clock.now() + self._tools.settings.claim_retention)
        try:
            await self._tools.documents.commit([Replace(bid.key, data, document.version)], timeout=STORE_CALL)
        except StoreError as error:
            log.warning("dead_letter_count_failed", code=error.code, error=str(error))
        deliveries = record.attempts if bid.delivery_attempt is None else bid.delivery_attempt
        past = deliveries > self._tools.settings.cut_off
        return outcome("dead_letter_window_exhausted" if past else "already_dead_lettered")

    async def _park(self, bid: _Bid, seen: _InFlight) -> Guard | Outcome:
        """Waits for the owner to settle or to go stale, never longer than the park budget."""
        clock, stale_after = self._tools.clock, self._tools.settings.stale_after
        until = min(clock.monotonic() + self._tools.settings.park_budget.total_seconds(), bid.deadline)
        bid.parked = True
        self._tools.metrics.claim_waits.inc()
        log.info(
            "delivery_parked",
            owner=seen.record.owner,
            attempts=seen.record.attempts,
            age_seconds=int(seen.age.total_seconds()),
            park_seconds=int(until - clock.monotonic()),
        )
        waiting, woken = self._parked.setdefault(bid.key, set()), Signal()
        waiting.add(woken)
        try:
            with self._tools.metrics.parked.track_inprogress():
                while (left := until - clock.monotonic()) > 0:
                    until_stale = (stale_after - seen.age).total_seconds()
                    pause = max(SHORTEST_POLL, min(self._poll(), until_stale))
                    await wait_first(clock, min(left, pause), woken, self._draining)
                    woken.clear()
                    if self._draining.is_set():
                        return outcome("worker_shutdown")
                    now = await self._sight(bid)
                    if not isinstance(now, _InFlight):
                        return now
                    seen = now
            return outcome("owner_in_flight")
        finally:
            waiting.discard(woken)
            if not waiting:
                self._parked.pop(bid.key, None)

    def _poll(self) -> float:
        usual = min(self._tools.settings.heartbeat.total_seconds(), LONGEST_POLL)
        return usual * self._random.uniform(0.8, 1.0)

    def _wake(self, key: Key) -> None:
        for woken in self._parked.get(key, ()):
            woken.set()


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
