"""The way of a run's events to its reader: bounded, never reordered, and kept for a while for a reader that returns."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.limits import MIB
from runtime.execution.event import Emitted, Stretches
from runtime.executor.stream_event import ndjson, read_back
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


class Direct(NamedTuple):
    """A reader that waits for the next event.

    Attributes:
        write: hands events to it now, and gives what was written; None: it cannot take them now, and nothing was done.
        overhead: bytes that a frame adds to a payload.
    """

    write: Callable[[Stretches], bytes | None]
    overhead: int


class _Kept(NamedTuple):
    last: int
    events: int
    written: bytes


class Channel:
    """Events of one run, from one emitter to one reader at a time.

    `progress` is coalesced while it waits; what the executor says itself is never dropped. Without a reader nothing
    waits: the newest events are kept for one that returns.

    Args:
        clock: measures stalls.
        rules: bounds.

    Attributes:
        name: begins the ids of its events.
        ended: whether its last event is there; what comes after it is dropped.
        overhead: bytes that a frame of its reader adds to a payload.
        moved_at: monotonic time at which its reader took something.
    """

    def __init__(self, clock: Clock, rules: ChannelRules | None = None) -> None:
        self._clock = clock
        self._rules = rules or ChannelRules()
        self.name = secrets.token_hex(6)
        self._position = 0
        self._gone = 0
        self._waiting: deque[Emitted] = deque()
        self._waiting_bytes = 0
        self._kept: deque[_Kept] = deque()
        self._kept_events = 0
        self._kept_bytes = 0
        self._progress: Emitted | None = None
        self._reader = 0
        self._attached = False
        self._direct: Direct | None = None
        self._room = asyncio.Event()
        self._some = asyncio.Event()
        self.moved_at = clock.monotonic()
        self.overhead = 0
        self.ended = False

    @property
    def coalesces(self) -> bool:
        """Whether a `progress` waits, which the next one replaces."""
        return self._progress is not None

    @property
    def waits(self) -> bool:
        """Whether an event waits for the reader."""
        return bool(self._waiting)

    def room(self) -> tuple[int, int]:
        """Events and bytes that may come before their producers have to wait."""
        rules = self._rules
        if not self._attached:
            return rules.events, rules.bytes
        most = rules.bytes - self._waiting_bytes
        return (rules.events - len(self._waiting), most) if most > 0 else (0, 1)

    def extend(self, events: Stretches, size: int) -> bytes | None:
        """Takes events, in order; there is room for them. Gives them as they were written, where they were.

        Args:
            events: at least one.
            size: bytes of their payloads.
        """
        if self.ended:
            return None
        self._position = events.last
        if not self._attached:
            return self._keep(events)
        if self._direct is not None and not self._waiting:
            written = self._direct.write(events)
            if written is not None:
                self.moved_at = self._clock.monotonic()
                return self._keep(events, written)
        self._waiting.extend(events)
        self._waiting_bytes += size
        self._some.set()
        return None

    def hold(self, event: Emitted, *, at_once: bool) -> None:
        """Takes a `progress`, in the place of one that waits.

        Args:
            event: with the next position.
            at_once: whether it may leave now; otherwise it waits for the next one or for its reader's turn.
        """
        if self._progress is not None:
            self._waiting.remove(self._progress)
            self._waiting_bytes -= len(self._progress[2])
            self._progress = None
            at_once = False
        if at_once or not self._attached or self.ended:
            self.extend(Stretches.of([event]), len(event[2]))
            if self._waiting and self._waiting[-1][0] == event[0]:
                self._progress = self._waiting[-1]
        else:
            self._progress = event
            self._wait(event)

    def say(self, event: Emitted, *, last: bool = False) -> None:
        """Takes an event of the executor's own, whatever waits already: there are a handful in a run.

        Args:
            event: with the next position.
            last: ends the stream.
        """
        if last and not self.ended and self._attached:
            self._wait(event)  # the reader's task has to end its answer, and writes what it finds
        else:
            self.extend(Stretches.of([event]), len(event[2]))
        if last:
            self.ended = True
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
        while self._kept and self._kept[-1].last > position:
            self._bring_back(position)
        while self._waiting and self._waiting[0][0] <= position:
            event = self._waiting.popleft()
            self._waiting_bytes -= len(event[2])
            self._keep(Stretches.of([event]))
        self._progress = None
        self._reader += 1
        self._attached = True
        self._direct = None
        self.moved_at = self._clock.monotonic()
        self._some.set()
        return self._reader

    def detach(self, reader: int) -> None:
        """Takes a reader away, if it still is the reader: nothing waits for it any more."""
        if reader == self._reader:
            self._attached = False
            self._direct = None
            self._progress = None
            for event in self._waiting:
                self._keep(Stretches.of([event]))
            self._waiting.clear()
            self._waiting_bytes = 0
            self._room.set()

    def is_reader(self, reader: int) -> bool:
        """Whether no other has taken its place."""
        return reader == self._reader

    def take(self, size: int, overhead: int = 0) -> list[Emitted]:
        """The next events, together at most `size` bytes, and one at least where any waits.

        Args:
            size: bytes of payloads, with `overhead` for each.
            overhead: bytes that a frame adds to a payload.
        """
        batch: list[Emitted] = []
        waiting, taken = self._waiting, 0
        while waiting and (not batch or size >= len(waiting[0][2]) + overhead):
            event = waiting.popleft()
            length = len(event[2])
            size -= length + overhead
            taken += length
            if event is self._progress:
                self._progress = None
            batch.append(event)
        if batch:
            self._waiting_bytes -= taken
            self._keep(Stretches.of(batch))
            self.moved_at = self._clock.monotonic()
            self._room.set()
        return batch

    async def some(self, direct: Direct | None = None) -> None:
        """Waits until an event waits, or the stream has another reader.

        Args:
            direct: takes events meanwhile; None lets every event wait.
        """
        if not self._waiting:
            self._some.clear()
            self._direct = direct
            if direct is not None:
                self.overhead = direct.overhead
            try:
                await self._some.wait()
            finally:
                if self._direct is direct:
                    self._direct = None

    async def until_room(self) -> None:
        """Waits until an event may come.

        Raises:
            SlowConsumer: the reader took nothing for the stall limit.
        """
        began = self._clock.monotonic()
        while self.room()[0] <= 0 and not self.ended:
            left = max(began, self.moved_at) + self._rules.stall.total_seconds() - self._clock.monotonic()
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

    def _wait(self, event: Emitted) -> None:
        self._position = event[0]
        self._waiting.append(event)
        self._waiting_bytes += len(event[2])
        self._some.set()

    def _keep(self, events: Stretches, written: bytes | None = None) -> bytes:
        """Keeps events for a reader that returns: at least as many as the rules say, the newest whatever its size.
        Gives them as they are written.

        What was written is kept, not the events: a hundred thousand tuples would cost the garbage collector more than
        streaming them.
        """
        kept, rules = self._kept, self._rules
        if written is None:
            written = ndjson(self.name, events)
        kept.append(_Kept(events.last, len(events), written))
        count, size = self._kept_events + len(events), self._kept_bytes + len(written)
        while len(kept) > 1:
            last, events_in, data = kept[0]
            if count - events_in < rules.kept_events and size - len(data) < rules.kept_bytes:
                break
            kept.popleft()
            count -= events_in
            size -= len(data)
            self._gone = last
        self._kept_events, self._kept_bytes = count, size
        return written

    def _bring_back(self, position: int) -> None:
        """Lets the newest events that are kept wait again, as far as they are after a position."""
        _, count, data = self._kept.pop()
        self._kept_events -= count
        self._kept_bytes -= len(data)
        events = read_back(data)
        seen = [event for event in events if event[0] <= position]
        unseen = events[len(seen) :]
        self._waiting.extendleft(reversed(unseen))
        self._waiting_bytes += sum(len(event[2]) for event in unseen)
        if seen:
            self._keep(Stretches.of(seen))

    def _position_of(self, identity: str) -> int:
        name, _, number = identity.partition("-")
        if name != self.name or not number.isascii() or not number.isdigit() or int(number[:18]) > self._position:
            raise PositionGone("the Last-Event-ID is not of this run's stream")
        return int(number[:18])
