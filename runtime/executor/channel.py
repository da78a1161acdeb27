"""The way of a run's events to its reader: bounded, never reordered, and kept for a while for a reader that returns."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from datetime import timedelta
from typing import Final

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.limits import MIB
from runtime.executor.stream_event import StreamEvent, stream_event
from runtime.ports.clock import Clock

COALESCED: Final = "progress"
"""Of these events only the newest matters: one that still waits is replaced by the next."""


class SlowConsumer(HoldfastError):
    """The reader of a stream took nothing for longer than the stall limit."""

    code = "slow_consumer"
    decision = Decision.PERMANENT


class PositionGone(HoldfastError):
    """The reader resumes after an event that is not of this stream, or after which events are no longer kept."""

    code = "stream_position_gone"
    decision = Decision.REFUSED


class ChannelRules(Struct, frozen=True, kw_only=True):
    """Bounds of one stream.

    Attributes:
        events: most engine events that wait for the reader.
        bytes: most bytes of them.
        stall: longest that an engine waits for a reader that takes nothing.
        kept_events: most events kept for a reader that returns.
        kept_bytes: most bytes of them.
    """

    events: int = 256
    bytes: int = MIB
    stall: timedelta = timedelta(seconds=30)
    kept_events: int = 1024
    kept_bytes: int = 256 * 1024


class Channel:
    """Events of one run, from any number of producers to one reader at a time.

    Engine events wait while too many wait already, at most the stall limit; `progress` is coalesced; what the executor
    says itself is never dropped. Without a reader nothing waits: the newest events are kept for one that returns.

    Args:
        clock: measures stalls.
        rules: bounds.
    """

    def __init__(self, clock: Clock, rules: ChannelRules | None = None) -> None:
        self._clock = clock
        self._rules = rules or ChannelRules()
        self._most_events, self._most_bytes = self._rules.events, self._rules.bytes
        self._name = secrets.token_hex(6)
        self._position = 0
        self._gone = 0
        self._waiting: deque[StreamEvent] = deque()
        self._waiting_bytes = 0
        self._kept: deque[StreamEvent] = deque()
        self._kept_bytes = 0
        self._progress: StreamEvent | None = None
        self._reader = 0
        self._attached = False
        self._moved_at = clock.monotonic()
        self._entrance = asyncio.Lock()
        self._queued = 0
        self._room = asyncio.Event()
        self._some = asyncio.Event()
        self.ended = False

    async def put(self, event_type: str, payload: bytes, timestamp: str) -> None:
        """Hands over an engine's event. After the end it is dropped: the last event is the last.

        Args:
            event_type: matches EVENT_TYPE.
            payload: JSON as `values.encode` writes it.
            timestamp: when it was emitted, RFC 3339.

        Raises:
            SlowConsumer: the reader took nothing for the stall limit.
        """
        if not self.offer(event_type, payload, timestamp):
            self._queued += 1
            try:
                async with self._entrance:  # those who wait for room keep their order
                    await self._until_room()
                    self._enter(event_type, payload, timestamp)
            finally:
                self._queued -= 1

    def offer(self, event_type: str, payload: bytes, timestamp: str) -> bool:
        """The same where nothing has to be waited for; False: nothing was done, use `put`."""
        if event_type == COALESCED and self._progress is not None:
            self._waiting.remove(self._progress)
            self._waiting_bytes -= len(self._progress.data)
        elif self._queued or (self._attached and self._full()):
            return False
        self._enter(event_type, payload, timestamp)
        return True

    def say(self, event_type: str, payload: bytes, timestamp: str, *, last: bool = False) -> None:
        """Hands over an event of the executor's own, whatever waits already: there are a handful in a run.

        Args:
            event_type, payload, timestamp: see `put`.
            last: ends the stream.
        """
        if self.ended:
            return
        self.ended = last
        self._append(event_type, payload, timestamp)
        if last:
            self._room.set()

    def attach(self, after: str | None = None) -> int:
        """Makes the caller the stream's reader, in the place of any other; gives its number.

        Args:
            after: id of the last event that it has; None begins with the first.

        Raises:
            PositionGone
        """
        position = 0 if after is None else self._position_of(after)
        if position < self._gone:
            raise PositionGone(f"events after {after or 'the first'} are no longer kept; ask for the run's record")
        while self._kept and self._kept[-1].position > position:
            event = self._kept.pop()
            self._kept_bytes -= len(event.data)
            self._waiting.appendleft(event)
            self._waiting_bytes += len(event.data)
        while self._waiting and self._waiting[0].position <= position:
            self._keep(self._waiting.popleft())
        self._progress = None
        self._reader += 1
        self._attached = True
        self._moved_at = self._clock.monotonic()
        self._some.set()
        return self._reader

    def detach(self, reader: int) -> None:
        """Takes a reader away, if it still is the reader: nothing waits for it any more."""
        if reader == self._reader:
            self._attached = False
            self._progress = None
            while self._waiting:
                self._keep(self._waiting.popleft())
            self._trim()
            self._room.set()

    def is_reader(self, reader: int) -> bool:
        """Whether no other has taken its place."""
        return reader == self._reader

    def take(self, size: int, overhead: int = 0) -> list[StreamEvent]:
        """The next events, together at most `size` bytes, and one at least where any waits.

        Args:
            size: bytes, with `overhead` for each event.
            overhead: bytes that a frame may add to its event.
        """
        waiting = self._waiting
        if self._waiting_bytes + len(waiting) * overhead <= size:
            batch = list(waiting)
            waiting.clear()
            self._kept_bytes += self._waiting_bytes
            self._waiting_bytes = 0
            self._progress = None
        else:
            batch = self._next(size, overhead)
        self._kept.extend(batch)
        if batch:
            self._moved_at = self._clock.monotonic()
            self._room.set()
            self._trim()
        return batch

    def _next(self, size: int, overhead: int) -> list[StreamEvent]:
        batch: list[StreamEvent] = []
        waiting, taken = self._waiting, 0
        while waiting and (not batch or size >= len(waiting[0].data) + overhead):
            event = waiting.popleft()
            length = len(event.data)
            size -= length + overhead
            taken += length
            if event is self._progress:
                self._progress = None
            batch.append(event)
        self._waiting_bytes -= taken
        self._kept_bytes += taken
        return batch

    async def some(self) -> None:
        """Waits until an event waits, or the stream has another reader."""
        if not self._waiting:
            self._some.clear()
            await self._some.wait()

    async def _until_room(self) -> None:
        began = self._clock.monotonic()
        while self._attached and self._full() and not self.ended:
            left = max(began, self._moved_at) + self._rules.stall.total_seconds() - self._clock.monotonic()
            if left <= 0:
                raise SlowConsumer(
                    f"the reader took nothing for {self._rules.stall.total_seconds():g} s while "
                    f"{len(self._waiting)} events waited for it"
                )
            self._room.clear()
            try:
                async with self._clock.timeout(left):
                    await self._room.wait()
            except TimeoutError:
                continue

    def _full(self) -> bool:
        return len(self._waiting) >= self._most_events or self._waiting_bytes >= self._most_bytes

    def _enter(self, event_type: str, payload: bytes, timestamp: str) -> None:
        if not self.ended:
            event = self._append(event_type, payload, timestamp)
            if event_type == COALESCED and self._attached:
                self._progress = event

    def _append(self, event_type: str, payload: bytes, timestamp: str) -> StreamEvent:
        self._position += 1
        event = stream_event(self._position, self._name, event_type, payload, timestamp)
        if self._attached:
            if not self._waiting:
                self._some.set()
            self._waiting.append(event)
            self._waiting_bytes += len(event.data)
        else:
            self._kept.append(event)
            self._kept_bytes += len(event.data)
            self._trim()
        return event

    def _keep(self, event: StreamEvent) -> None:
        self._waiting_bytes -= len(event.data)
        self._kept.append(event)
        self._kept_bytes += len(event.data)

    def _trim(self) -> None:
        # The newest event stays whatever its size: it may be the one that says how the run ended.
        kept, most, most_bytes, size = self._kept, self._rules.kept_events, self._rules.kept_bytes, self._kept_bytes
        while (len(kept) > most or size > most_bytes) and len(kept) > 1:
            event = kept.popleft()
            size -= len(event.data)
            self._gone = event.position
        self._kept_bytes = size

    def _position_of(self, identity: str) -> int:
        name, _, number = identity.partition("-")
        if name != self._name or not number.isascii() or not number.isdigit() or int(number[:18]) > self._position:
            raise PositionGone("the Last-Event-ID is not of this run's stream")
        return int(number[:18])
