"""Events of a run: which names user code may use, and the form that goes to the API."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, overload

from runtime.contract.states import ProgressStatus
from runtime.execution.values import one_line

EVENT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")

RESERVED: Final = frozenset(
    {"cancelled", "completed", "error", "failed", "heartbeat", "node_end", "node_start", "run_initiated", "timeout"}
)
"""Names that readers of a stream take for the platform's word on the run; user code cannot forge them."""


STEP_CHARACTERS: Final = 256
"""Longest `current_step` that the API keeps."""

LAST_EVENT: Final[Mapping[ProgressStatus, tuple[str, object]]] = MappingProxyType(
    {
        ProgressStatus.COMPLETED: ("log", {"level": "info", "message": "Execution completed"}),
        ProgressStatus.FAILED: ("error", {"message": "Execution failed"}),
        ProgressStatus.TIMEOUT: ("error", {"message": "Execution timeout"}),
        ProgressStatus.CANCELLED: ("error", {"message": "Execution cancelled"}),
    }
)
"""The executor's own last word in a run's events."""


def event_type_fault(event_type: object) -> str | None:
    """Why user code may not emit an event of this type; None where it may."""
    if not isinstance(event_type, str) or EVENT_TYPE.fullmatch(event_type) is None:
        return "an event's type must be 1 to 64 lower case letters, digits and _, starting with a letter"
    if event_type in RESERVED:
        return f"the event type {event_type!r} is the platform's own; choose another name"
    return None


def progress_note(payload: Mapping[object, object]) -> tuple[int | None, str | None]:
    """What a `progress` event says for the run's record: whole per cent and step, None where it does not say."""
    value, step = payload.get("progress"), payload.get("current_step")
    percent = None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
        percent = int(value)
    return percent, one_line(step, STEP_CHARACTERS) if isinstance(step, str) else None


def event_id(run_id: str, attempt: int, sequence: int) -> str:
    """The same id for the same event however often it is sent."""
    return next(_event_ids(run_id, attempt, sequence))


def _event_ids(run_id: str, attempt: int, first: int) -> Iterator[str]:
    """The ids of an attempt's events, without end; what they have in common is hashed once."""
    run = hashlib.sha256(f"{run_id}:{attempt}:".encode())
    for sequence in itertools.count(first):
        identity = run.copy()
        identity.update(b"%d" % sequence)
        yield "evt-" + identity.hexdigest()


class EventRecord(NamedTuple):
    """One event as it is sent.

    Attributes:
        run_id: whose it is.
        attempt: which attempt's.
        sequence: position in the run, over all attempts, from 0, without gaps.
        event_type: see EVENT_TYPE.
        payload: encoded JSON value.
        timestamp: when the engine emitted it, RFC 3339 in UTC.
    """

    run_id: str
    attempt: int
    sequence: int
    event_type: str
    payload: bytes
    timestamp: str

    @property
    def id(self) -> str:
        """See event_id."""
        return event_id(self.run_id, self.attempt, self.sequence)


Emitted = tuple[int, str, bytes, str]
"""Position in its stream, type, encoded payload and timestamp of an event that has no number of the API's yet."""


class GatheredEvents(Sequence[Emitted]):
    """Events in order that are held in another form than one by one."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: int) -> Emitted: ...

    @overload
    def __getitem__(self, place: slice) -> list[Emitted]: ...

    def __getitem__(self, place: int | slice) -> Emitted | list[Emitted]:
        return list(self)[place]

    def tails(self) -> Iterator[bytes]:
        """For each event what stands behind its number where it is sent: see `tails`."""
        return map(_tail, self)


Stretch = tuple[int, str, str, list[bytes]]
"""Events in a row of one type and one time: position of the first one, type, timestamp, and each one's encoded payload.
Plain, as `Emitted`: one is made for every event that comes alone.
"""


class Stretches(GatheredEvents):
    """Events in order, as the stretches that they were made in.

    Args:
        stretches: at least one.
        count: how many events they are.
        last: position of the last one.
    """

    __slots__ = ("_count", "last", "stretches")

    def __init__(self, stretches: list[Stretch], count: int, last: int) -> None:
        self.stretches = stretches
        self._count = count
        self.last = last

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Emitted]:
        for first, event_type, timestamp, payloads in self.stretches:
            for position, payload in enumerate(payloads, first):
                yield position, event_type, payload, timestamp

    @classmethod
    def of(cls, events: Sequence[Emitted]) -> Stretches:
        """Any events in order, at least one: most that come together are of one type and one time."""
        if isinstance(events, Stretches):
            return events
        stretches: list[Stretch] = []
        payloads: list[bytes] = []
        last, alike = -1, ("", "")
        for position, event_type, payload, timestamp in events:
            if position == last + 1 and (event_type, timestamp) == alike:
                payloads.append(payload)
            else:
                payloads, alike = [payload], (event_type, timestamp)
                stretches.append((position, event_type, timestamp, payloads))
            last = position
        return cls(stretches, len(events), last)


def tails(events: Sequence[Emitted]) -> Iterator[bytes]:
    """For each event the end of a JSON object, from `"event_type":` on; every part but the payload is of a fixed
    alphabet.
    """
    return events.tails() if isinstance(events, GatheredEvents) else map(_tail, events)


def _tail(event: Emitted) -> bytes:
    _, event_type, payload, timestamp = event
    return b'"event_type":"%b","payload":%b,"timestamp":"%b"}' % (event_type.encode(), payload, timestamp.encode())


class NumberedEvents(Sequence[EventRecord]):
    """Events in a row with their numbers, which cost nothing until the events are sent.

    Args:
        run_id: whose they are.
        attempt: which attempt's.
        first: sequence of the first one.
        events: in order.
    """

    __slots__ = ("_attempt", "_events", "_run_id", "first")

    def __init__(self, run_id: str, attempt: int, first: int, events: Sequence[Emitted]) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._events = events
        self.first = first

    def renumbered(self, attempt: int, first: int) -> NumberedEvents:
        """The same events under the numbers of an attempt."""
        return NumberedEvents(self._run_id, attempt, first, self._events)

    def encoded(self) -> Iterator[bytes]:
        """Each event as a JSON object."""
        ids = _event_ids(self._run_id, self._attempt, self.first)
        for sequence, tail in enumerate(tails(self._events), self.first):
            yield b'{"id":"%b","sequence":%d,%b' % (next(ids).encode(), sequence, tail)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[EventRecord]:
        for sequence, event in enumerate(self._events, self.first):
            yield EventRecord(self._run_id, self._attempt, sequence, *event[1:])

    @overload
    def __getitem__(self, place: int) -> EventRecord: ...

    @overload
    def __getitem__(self, place: slice) -> list[EventRecord]: ...

    def __getitem__(self, place: int | slice) -> EventRecord | list[EventRecord]:
        if isinstance(place, slice):
            return list(self)[place]
        sequence = self.first + range(len(self._events))[place]
        return EventRecord(self._run_id, self._attempt, sequence, *self._events[place][1:])
