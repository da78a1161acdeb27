"""Events of a run on their way to the API: numbered by one consumer, in batches, each acknowledged before the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog
from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import CALLBACK_BATCH_BYTES
from runtime.execution.callback_messages import EventCallback, EventsRequest, SequenceGap, Until
from runtime.execution.event import EVENT_TYPE, Emitted, NumberedEvents
from runtime.execution.event_queue import EventQueue
from runtime.execution.meters import Meters
from runtime.execution.payload import encode_payload
from runtime.execution.stamps import Stamps
from runtime.execution.values import ValueRefused
from runtime.ports.clock import Clock, Timer

QUEUE_EVENTS: Final = 1000
"""Events that may wait; an engine that emits more waits itself."""
QUEUE_BYTES: Final = 1024 * 1024
"""Bytes of events that may wait."""

log = structlog.get_logger()


class BatchRules(Struct, frozen=True, kw_only=True):
    """When a batch goes out.

    Attributes:
        interval: longest that an event waits for company; 0 sends at once.
        size: most events in one batch.
        byte_limit: most bytes in one batch; an event alone may be larger.
    """

    interval: timedelta = timedelta(seconds=1)
    size: int = 100
    byte_limit: int = CALLBACK_BATCH_BYTES


class EventSource(Struct, frozen=True, kw_only=True):
    """Whose events they are.

    Attributes:
        run_id, job_id, lease_token: of the attempt that holds the lease.
        attempt: part of the events' ids.
        next_sequence: of the first event.
    """

    run_id: str
    job_id: str
    lease_token: str
    attempt: int
    next_sequence: int


class EventBatcher:
    """Takes events from any number of producers and delivers each of them, or fails as a whole.

    Args:
        callbacks: delivers.
        source: whose events.
        clock: measures intervals and stamps events.
        until: how long a batch may be retried.
        rules: when batches go out.
        meters: counts; None counts nothing.
    """

    def __init__(
        self,
        callbacks: EventCallback,
        source: EventSource,
        clock: Clock,
        *,
        until: Until,
        rules: BatchRules | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._callbacks = callbacks
        self._source = source
        self._clock = clock
        self._until = until
        self._rules = rules or BatchRules()
        self._meters = meters
        self._sequence = source.next_sequence
        self._queue = EventQueue()
        self._stamps = Stamps(clock)
        self._closing = False
        self._entrance = asyncio.Lock()
        self._room = asyncio.Event()
        self._some = asyncio.Event()
        self._ripe = asyncio.Event()
        self._alarm: Timer | None = None
        self._consumer: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Starts the consumer. Its task ends when everything is delivered after `close`, or with the error that ended
        it: CallbackUnavailable, CallbackRefused, LeaseNotCurrent or SequenceGap.
        """
        self._consumer = asyncio.create_task(self._consume())
        self._consumer.add_done_callback(self._ended)
        return self._consumer

    async def emit(self, event_type: str, payload: object) -> None:
        """Hands an event over; waits while too much is waiting already. After a failure, or after `close`, events are
        dropped and counted: the run is ending for a reason of its own.

        Raises:
            ValueRefused: the type or the payload cannot be sent.
        """
        if EVENT_TYPE.fullmatch(event_type) is None:
            raise ValueRefused(f"{event_type[:80]!r} is no event type: 1 to 64 lower case letters, digits and _")
        encoded = encode_payload(payload)
        event = (0, event_type, encoded, self._stamps.now())
        async with self._entrance:  # those who wait for room keep their order
            while self.room() <= 0 and not self._over():
                self._room.clear()
                await self._room.wait()
            if self._over():
                self._drop(1)
                return
            self._queue.put((event,), len(encoded))
        self._wake()

    def room(self) -> int:
        """Events that `extend` takes; 0 or less where too much is waiting."""
        queue = self._queue
        return 0 if queue.size >= QUEUE_BYTES else QUEUE_EVENTS - queue.count

    def extend(self, events: Sequence[Emitted], size: int, *, beyond: bool = False) -> int:
        """Hands over events that were checked and encoded before; how many of them were taken. Where too much is
        waiting, the last ones are dropped.

        Args:
            events: in order.
            size: bytes of their payloads.
            beyond: whether they are taken whatever is waiting.
        """
        count, queue = len(events), self._queue
        room = 0 if self._over() else count if beyond else max(0, self.room())
        if count > room:
            self._drop(count - room)
            events = events[:room]
            size = sum(len(payload) for _, _, payload, _ in events)
            count = room
        if count:
            was_empty = not queue.count
            queue.put(events, size)
            if was_empty or self._is_ripe():
                self._wake()
        return count

    async def close(self) -> None:
        """Delivers everything that was emitted before.

        Raises:
            CallbackUnavailable, CallbackRefused, LeaseNotCurrent, SequenceGap: it could not.
        """
        self._closing = True
        self._room.set()
        self._some.set()
        self._ripe.set()
        if self._consumer is not None:
            await asyncio.shield(self._consumer)

    async def _consume(self) -> None:
        interval = self._rules.interval.total_seconds()
        last = -interval
        while True:
            await self._some.wait()
            if not self._queue.count:
                return
            # An event that comes after a quiet time goes at once; the next ones gather until the interval is over.
            await self._ripen(last + interval)
            last = self._clock.monotonic()
            await self._deliver(self._take())

    async def _ripen(self, moment: float) -> None:
        """Waits until a batch is full, or for a moment. Many batches fill within one interval: the alarm of the first
        is left to ring, and is set again only where there is still something to wait for.
        """
        while not self._is_ripe() and (seconds := moment - self._clock.monotonic()) > 0:
            if self._alarm is None:
                self._alarm = self._clock.call_later(seconds, self._ring)
            self._ripe.clear()
            await self._ripe.wait()

    def _ring(self) -> None:
        self._alarm = None
        self._ripe.set()

    def _take(self) -> NumberedEvents:
        batch = self._queue.take(self._rules.size, self._rules.byte_limit)
        if not self._queue.count and not self._closing:
            self._some.clear()
        self._room.set()
        return NumberedEvents(self._source.run_id, self._source.attempt, self._sequence, batch)

    async def _deliver(self, batch: NumberedEvents) -> None:
        request = EventsRequest(job_id=self._source.job_id, lease_token=self._source.lease_token, events=batch)
        try:
            following = await self._callbacks.events(request, until=self._until)
            if following != self._sequence + len(batch):
                raise SequenceGap(
                    f"the API expects sequence {following} after events up to {self._sequence + len(batch) - 1}"
                )
        except HoldfastError:
            self._drop(len(batch))
            self._count("failed")
            raise
        self._sequence += len(batch)
        self._count("acknowledged")

    def _ended(self, consumer: asyncio.Task[None]) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._drop(self._queue.count)
        self._queue.clear()
        self._room.set()
        if not consumer.cancelled() and (error := consumer.exception()) is not None:
            log.warning("event_delivery_failed", run_id=self._source.run_id, error=str(error))

    def _wake(self) -> None:
        self._some.set()
        if self._is_ripe():
            self._ripe.set()

    def _over(self) -> bool:
        return self._closing or (self._consumer is not None and self._consumer.done())

    def _is_ripe(self) -> bool:
        queue, rules = self._queue, self._rules
        return queue.count >= rules.size or queue.size >= rules.byte_limit or self._closing

    def _count(self, result: str) -> None:
        if self._meters is not None:
            self._meters.callback_batches.labels(result).inc()

    def _drop(self, events: int) -> None:
        if self._meters is not None and events:
            self._meters.callback_drops.inc(events)
