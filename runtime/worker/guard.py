"""The ownership of one message by one delivery: kept alive, given up, settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

import structlog
from msgspec import Struct
from msgspec.structs import replace

from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.states import FailureClass
from runtime.execution.signal import Signal
from runtime.execution.tasks import end
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock, Timer
from runtime.ports.documents import (
    Create,
    DocumentExists,
    Documents,
    Key,
    Replace,
    StoreError,
    StoreUnavailable,
    Version,
    VersionMismatch,
    Write,
)
from runtime.server import Lifecycle
from runtime.worker.claim_record import ClaimRecord, ClaimState
from runtime.worker.step_limit import StepLimit
from runtime.worker.waiting import wait_first

STOP_MARGIN: Final = 10.0
"""Seconds before a claim could look stale to others at which its owner stops: what stopping work may take."""
BEAT_RETRY: Final = 5.0
"""Seconds until an unconfirmed heartbeat is tried again, where the heartbeat itself is not shorter."""
STORE_CALL: Final = 10.0
"""Longest single call to the store, seconds."""
DROP_SECONDS: Final = 5.0
"""Longest that a delivery waits for the release of a guard that was dropped."""
LAST_WORD_SECONDS: Final = 600.0
"""Longest that a last word is repeated after its delivery. Pub/Sub's longest pause: by then the message has come again,
and its claim is another's where the store answers."""
SETTLE_PAUSE: Final = 0.25
"""First pause between two tries to settle, seconds; doubled up to 4 s."""
DROPPED: Final = "guard_dropped"

log = structlog.get_logger()


class Settlement(StrEnum):
    """What became of the last write of an owner."""

    DONE = "done"
    LOST = "lost"
    """The claim is, or may by now be, another's; nothing was written."""
    UNCONFIRMED = "unconfirmed"
    """The store did not say yet; the word is repeated beyond the answer."""


class ClaimLost(Exception):
    """The document is another delivery's, or gone."""


class ClaimTools(Struct, frozen=True):
    """What every guard of a process shares."""

    documents: Documents
    settings: WorkerSettings
    clock: Clock
    metrics: Metrics
    lifecycle: Lifecycle


class Guard:
    """Owns a claim from its acquisition to its settlement. Use as a context: what is not settled is released.

    Attributes:
        record: as last written; of a claim that may not have been taken, as it would have been.
        lost: set when the work must stop because the claim is another's, or may soon be.
    """

    def __init__(
        self,
        tools: ClaimTools,
        key: Key,
        record: ClaimRecord,
        version: Version | None,
        confirmed_at: float,
        on_settled: Callable[[Key], None],
    ) -> None:
        self._tools = tools
        self._key = key
        self.record = record
        self._version = version
        self._confirmed_at = confirmed_at
        self._on_settled = on_settled
        self.lost = Signal()
        self._lock = asyncio.Lock()
        self._first_beat: Timer | None = None
        self._beating: asyncio.Task[None] | None = None
        self._last_word: ClaimRecord | None = None
        self._closed = False
        self._stopping = False

    async def __aenter__(self) -> Self:
        # Most work is over before its first beat is due: until then a timer costs less than a task.
        pause = min(self._tools.settings.heartbeat.total_seconds(), self.seconds_safe)
        self._first_beat = self._tools.clock.call_later(pause, self._begin_to_beat)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        dropping = self._apart(self._drop())
        await wait_first(self._tools.clock, DROP_SECONDS, task=dropping)

    @property
    def seconds_safe(self) -> float:
        """How long the claim is surely ours, judged from its last confirmed write."""
        stale = self._tools.settings.stale_after.total_seconds()
        return self._confirmed_at + stale - STOP_MARGIN - self._tools.clock.monotonic()

    @property
    def ours(self) -> bool:
        """Whether an effect may still be made in the name of this claim."""
        return not self.lost.is_set() and self.seconds_safe > 0

    async def settle(
        self,
        state: ClaimState,
        code: str,
        *,
        within: float,
        excused: bool = False,
        failure_class: FailureClass | None = None,
    ) -> Settlement:
        """Ends the ownership by the last write of this delivery, tried until it is confirmed. Where the time is over,
        that goes on beside the answer: a claim that is left in progress goes stale, and its attempt counts.

        Args:
            state: COMPLETED, RELEASED or DEAD_LETTERED.
            code: why; "" for COMPLETED.
            within: seconds to wait for it; a drain shortens them.
            excused: the attempt does not count.
            failure_class: why it did not succeed; None where it did.
        """
        await self._stop_beating()
        if not self.ours:
            self._closed = True
            return Settlement.LOST
        self._last_word = replace(
            self.record,
            state=state,
            outcome_code=code,
            excused=self.record.excused + (1 if excused else 0),
            failure_class=str(failure_class or ""),
        )
        try:
            async with StepLimit(self._tools.lifecycle, self._tools.clock, within):
                await self._write_until_clear(self._last_word)
        except ClaimLost:
            result = Settlement.LOST
        except (StoreError, TimeoutError) as error:
            log.warning("claim_settlement_unconfirmed", state=str(state), code=code, error=str(error))
            result = Settlement.UNCONFIRMED
            if isinstance(error, TimeoutError):
                _ = self._apart(self._repeat(self._last_word))
        else:
            result = Settlement.DONE
        self._closed = True
        self._on_settled(self._key)
        return result

    async def abandon(self) -> None:
        """Leaves the claim to its staleness, without a write: something may still work in its name."""
        self._closed = True
        await self._stop_beating()

    def withdraw(self, code: str) -> None:
        """Gives back, beside the answer, what may or may not have been taken. A take that is still under way fails once
        this is written.

        Args:
            code: why no work was begun; the attempt does not count.
        """
        word = replace(self.record, state=ClaimState.RELEASED, outcome_code=code, excused=self.record.excused + 1)
        _ = self._apart(self._repeat(word))

    def _apart(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """In a task of its own: no cancellation of the delivery stops it, and a drain waits for it."""
        task = asyncio.create_task(work, name="last word of a claim")
        self._tools.lifecycle.track(task)
        return task

    async def _drop(self) -> None:
        await self._stop_beating()
        self._closed = True
        if self.lost.is_set():
            self._on_settled(self._key)
            return
        # A settlement that was interrupted may be in the store: the same word again, never another one.
        await self._repeat(
            self._last_word
            or replace(
                self.record,
                state=ClaimState.RELEASED,
                outcome_code=DROPPED,
                failure_class=str(FailureClass.DISPATCH_ERROR),
            )
        )

    async def _repeat(self, word: ClaimRecord) -> None:
        try:
            async with StepLimit(self._tools.lifecycle, self._tools.clock, LAST_WORD_SECONDS):
                await self._write_until_clear(word)
        except ClaimLost:
            log.warning("claim_lost", cause="replaced", owner=word.owner, attempts=word.attempts)
        except Exception:
            # Nobody waits for it: staleness recovers the claim, and its attempt counts.
            log.exception("claim_release_failed", code=word.outcome_code)
        else:
            if word.state is ClaimState.RELEASED:
                log.warning("claim_released", code=word.outcome_code, attempts=word.attempts)
        finally:
            self._on_settled(self._key)

    async def _stop_beating(self) -> None:
        self._stopping = True
        if self._first_beat is not None:
            self._first_beat.cancel()
        if self._beating is not None:
            await end(self._beating)

    def _begin_to_beat(self) -> None:
        self._beating = asyncio.create_task(self._beat_until_lost(), name="claim heartbeat")

    async def _beat_until_lost(self) -> None:
        usual, pause = self._tools.settings.heartbeat.total_seconds(), 0.0
        try:
            while self.seconds_safe > 0:
                await self._tools.clock.sleep(min(pause, self.seconds_safe))
                if self.seconds_safe <= 0:
                    break
                limit = min(STORE_CALL, self.seconds_safe)
                try:
                    async with self._tools.clock.timeout(limit):
                        await self._write(self.record, limit)
                    pause = usual
                except (StoreError, TimeoutError) as error:
                    self._tools.metrics.heartbeat_failures.labels(cause="unknown").inc()
                    log.warning("claim_heartbeat_failed", work="continues", error=str(error))
                    pause = min(usual, BEAT_RETRY)
            self._give_way("unconfirmed")
        except ClaimLost:
            self._give_way("lost")
        except BaseException as error:
            # Also a cancellation that is not ours: a claim without a heartbeat must not be worked on.
            if not self._stopping:
                log.exception("claim_heartbeat_broken", kind=type(error).__name__)
                self._give_way("broken")
            raise

    def _give_way(self, cause: str) -> None:
        self._tools.metrics.heartbeat_failures.labels(cause=cause).inc()
        log.warning("claim_lost", cause=cause, owner=self.record.owner, attempts=self.record.attempts)
        self.lost.set()

    async def _write_until_clear(self, record: ClaimRecord) -> None:
        pause = SETTLE_PAUSE
        while True:
            try:
                await self._write(record, STORE_CALL)
            except StoreUnavailable:
                await self._tools.clock.sleep(pause)
                pause = min(4.0, pause * 2)
            else:
                return

    async def _write(self, record: ClaimRecord, timeout: float) -> None:
        """Writes a record over our own last write; a write of ours that was never confirmed is recognised."""
        async with self._lock:
            try:
                await self._replace(record, timeout)
            except (DocumentExists, VersionMismatch):
                if await self._is_settled_by_us(timeout):
                    return
                try:
                    await self._replace(record, timeout)
                except VersionMismatch:
                    raise ClaimLost from None

    async def _replace(self, record: ClaimRecord, timeout: float) -> None:
        clock = self._tools.clock
        sent = clock.monotonic()
        now = clock.now()
        record = replace(record, heartbeat_at_ms=int(now.timestamp() * 1000))
        data = record.data(now + self._tools.settings.claim_retention)
        version = self._version
        write: Write = Create(self._key, data) if version is None else Replace(self._key, data, version)
        (self._version,) = await self._tools.documents.commit([write], timeout=timeout)
        self.record = record
        self._confirmed_at = sent

    async def _is_settled_by_us(self, timeout: float) -> bool:
        """After a mismatch: takes over the version of an unconfirmed write of ours; True where that write settled.

        Raises:
            ClaimLost: the document carries another token, or is gone.
        """
        document = await self._tools.documents.get(self._key, timeout=timeout)
        seen = None if document is None else ClaimRecord.read(document.data)
        if document is None or seen is None or seen.token != self.record.token:
            raise ClaimLost
        self._version = document.version
        return seen.state is not ClaimState.IN_PROGRESS
