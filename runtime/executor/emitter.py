"""The way of a run's events out: encoded one by one, handed on many at a time, and at once where one comes alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from runtime.execution.event import EVENT_TYPE, Emitted, Stretch, Stretches, progress_note
from runtime.execution.payload import encode_payload
from runtime.execution.stamps import Stamps
from runtime.execution.values import ValueRefused
from runtime.executor.channel import COALESCED, Channel, SlowConsumer
from runtime.executor.stream_event import Written
from runtime.ports.clock import Clock

GATHER_BYTES: Final = 15 * 1024
"""Bytes of events that leave as soon as they are there: with the one that comes last they fill a write."""
TURN_EVENTS: Final = 200
"""Events after which an engine that never waits lets others have their turn, where they do not fill a write before."""
KNOWN_TYPES: Final = 64
"""Event types of a run that are remembered as valid."""


class Reports(Protocol):
    """The way of events to the API."""

    def room(self) -> int:
        """Events that may come before their producers have to wait; 0 or less: none."""
        ...

    async def until_room(self) -> None:
        """Waits until an event may come, within bounds: what comes then may be lost."""
        ...

    def extend(self, events: Sequence[Emitted], size: int, *, own: bool = False) -> None:
        """Takes events; never waits.

        Args:
            events: in order.
            size: bytes of their payloads.
            own: whether the executor itself says the last of them: taken whatever waits already.
        """
        ...

    def note(self, progress: int | None, step: str | None) -> None:
        """Takes what a `progress` says for the run's record."""
        ...

    def hasten(self) -> None:
        """Nobody waits for room any more."""
        ...


class Emitter:
    """Takes events from any number of producers, numbers them, and hands them to the reader and to the API in order.

    The first event of a turn of the loop leaves at once. Those that follow it in the same turn gather, until they fill
    a write or the turn is over.

    Args:
        clock: stamps events.
        channel: to the reader of a stream; None where there is none.
        reports: to the API.
        stalled: called when the reader takes nothing for too long.
    """

    def __init__(
        self,
        clock: Clock,
        channel: Channel | None,
        reports: Reports,
        *,
        stalled: Callable[[SlowConsumer], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.create_future()
        self._done.set_result(None)
        self._channel = channel
        self._reports = reports
        self._stalled = stalled
        self._stamps = Stamps(clock)
        self._time = clock.timestamp
        self._known: set[str] = set()
        self._end = 0
        self._left = 0
        """Events that may come without looking again; `_end` is the position of the last of them."""
        self._seen = 0
        self._pending: list[Stretch] = []
        self._type = ""
        """Type of the stretch that the next event may join, made between two times; "" where there is none."""
        self._since = self._until = 0.0
        self._payloads: list[bytes] = []
        self._size = 0
        self._most = 0
        self._overhead = 0
        self._queued = 0
        self._reporting = asyncio.Lock()
        self._entrance = asyncio.Lock()
        self._stopped = False
        self._look()

    def emit(self, event_type: str, payload: object) -> Awaitable[None]:
        """See Emit: encodes the event now. It takes its place now too, but for the first of its type, a `progress`, and
        one that finds no room: these do where they are awaited.

        Raises:
            ValueRefused: the type or the payload cannot be sent.
        """
        if self._left <= 0 or event_type not in self._known:
            if event_type not in self._known and EVENT_TYPE.fullmatch(event_type) is None:
                raise ValueRefused(f"{event_type[:80]!r} is no event type: 1 to 64 lower case letters, digits and _")
            note = progress_note(payload) if event_type == COALESCED and isinstance(payload, Mapping) else None
            return self._carefully(event_type, encode_payload(payload), note)
        encoded = encode_payload(payload)
        if event_type != self._type or not self._since <= self._time() < self._until:
            self._begin_stretch(event_type)
        self._left -= 1
        self._payloads.append(encoded)
        self._size = size = self._size + len(encoded) + self._overhead
        if size < self._most:
            return self._done
        return self._filled()

    def say(self, event_type: str, payload: bytes, *, reported: bool = True, last: bool = False) -> None:
        """An event of the executor's own, whatever waits already.

        Args:
            event_type: see `emit`.
            payload: encoded.
            reported: whether the API gets it too.
            last: ends the reader's stream; of no concern to the API.
        """
        self._left -= 1
        event = (self._position, event_type, payload, self._stamps.now())
        if reported and not last:
            self._gather(event)
        self.flush(own=reported)
        if (last or not reported) and self._channel is not None:
            self._channel.say(event, last=last)
        self._look()

    def stop(self) -> None:
        """What comes from now on is dropped."""
        self._stopped = True
        self._allow(0)
        self._reports.hasten()

    def flush(self, *, own: bool = False) -> None:
        """Hands on what has gathered; see Reports.extend."""
        if not self._pending:
            return
        stretches = self._pending
        count = len(stretches[0][3]) if len(stretches) == 1 else sum([len(stretch[3]) for stretch in stretches])
        pending = Stretches(stretches, count, self._position)
        self._pending, self._type = [], ""
        size, self._size = self._size - count * self._overhead, 0
        written = None if self._channel is None else self._channel.extend(pending, size)
        # What is written stays together: a thousand small objects that wait are slow to come back to.
        self._reports.extend(pending if written is None else Written(written, count), size, own=own)
        self._look()

    @property
    def _position(self) -> int:
        """Of the last event."""
        return self._end - self._left

    def _allow(self, events: int) -> None:
        self._end, self._left = self._position + events, events

    def _begin_stretch(self, event_type: str) -> None:
        timestamp = self._stamps.now()
        self._type, self._since, self._until = event_type, self._stamps.begin, self._stamps.end
        self._payloads = []
        self._pending.append((self._position + 1, event_type, timestamp, self._payloads))

    def _gather(self, event: Emitted) -> None:
        """Adds an event that has its position to those that leave next."""
        position, event_type, payload, timestamp = event
        self._pending.append((position, event_type, timestamp, [payload]))
        self._type = ""
        self._size += len(payload) + self._overhead

    def _filled(self) -> Awaitable[None]:
        if self._most == 0:
            self._begin_turn()
            self.flush()
            return self._done
        self.flush()
        return asyncio.sleep(0)

    def _begin_turn(self) -> None:
        self._most = GATHER_BYTES
        self._seen = self._position
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self.flush()
        if self._position == self._seen:
            self._most = 0
        else:
            self._begin_turn()
            self._look()

    def _look(self) -> None:
        """How far events may come without looking again."""
        channel, events = self._channel, min(TURN_EVENTS, self._reports.room())
        if channel is not None:
            self._overhead = channel.overhead
            room, room_bytes = channel.room()
            events = min(events, room)
            if self._most:
                self._most = min(GATHER_BYTES, room_bytes)
        if self._most:
            events = min(events, self._seen + TURN_EVENTS - self._position)
        self._allow(0 if self._stopped or self._queued else events)

    async def _carefully(self, event_type: str, encoded: bytes, note: tuple[int | None, str | None] | None) -> None:
        timestamp = self._stamps.now()
        if event_type != COALESCED and len(self._known) < KNOWN_TYPES:
            self._known.add(event_type)
        if self._stopped:
            await asyncio.sleep(0)
            return
        if note is not None:
            self._reports.note(*note)
        self.flush()
        if self._take(event_type, encoded, timestamp):
            if self._position >= self._seen + TURN_EVENTS:
                await asyncio.sleep(0)
            return
        await self._when_there_is_room(event_type, encoded, timestamp)

    def _take(self, event_type: str, encoded: bytes, timestamp: str) -> bool:
        """Takes an event; False where it has to wait for room."""
        channel = self._channel
        if self._reports.room() <= 0:
            return False
        replaces = channel is not None and event_type == COALESCED and channel.coalesces
        if not replaces and (self._queued or (channel is not None and channel.room()[0] <= 0)):
            return False
        self._left -= 1
        event = (self._position, event_type, encoded, timestamp)
        at_once = self._most == 0
        if at_once:
            self._begin_turn()
        if channel is not None and event_type == COALESCED:
            channel.hold(event, at_once=at_once)
            self._reports.extend([event], len(encoded))
            self._look()
            return True
        self._gather(event)
        if at_once or self._size >= self._most:
            self.flush()
        return True

    async def _when_there_is_room(self, event_type: str, encoded: bytes, timestamp: str) -> None:
        self._queued += 1
        self._allow(0)
        try:
            async with self._reporting:  # those who wait for room keep their order
                await self._reports.until_room()
                self._reports.extend([(0, event_type, encoded, timestamp)], len(encoded))
            if self._channel is None:
                return
            async with self._entrance:
                await self._channel.until_room()
                self._left -= 1
                self._channel.extend(Stretches.of([(self._position, event_type, encoded, timestamp)]), len(encoded))
        except SlowConsumer as error:
            self._stalled(error)
        finally:
            self._queued -= 1
            self._look()
