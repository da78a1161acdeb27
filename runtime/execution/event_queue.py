"""Events that wait to be reported: put in as they came together, taken out in batches, none of them looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, overload

from runtime.execution.event import Emitted, GatheredEvents, tails

ENVELOPE_BYTES: Final = 512
"""Room in a batch for one event's id, type, sequence and time, and for the batch's own fields."""


class _Stretch(NamedTuple):
    """Events in a row, of those that came together.

    Attributes:
        events: that came together.
        start, stop: which of them.
        size: bytes that these count for.
        bound: bytes that these have at most.
    """

    events: Sequence[Emitted]
    start: int
    stop: int
    size: int
    bound: int


class Joined(GatheredEvents):
    """Events of several stretches as one sequence."""

    __slots__ = ("_count", "_stretches")

    def __init__(self, stretches: Sequence[_Stretch], count: int) -> None:
        self._stretches = stretches
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Emitted]:
        return chain.from_iterable(islice(events, start, stop) for events, start, stop, *_ in self._stretches)

    def tails(self) -> Iterator[bytes]:
        """See GatheredEvents."""
        return chain.from_iterable(islice(tails(events), start, stop) for events, start, stop, *_ in self._stretches)

    @overload
    def __getitem__(self, place: int) -> Emitted: ...

    @overload
    def __getitem__(self, place: slice) -> list[Emitted]: ...

    def __getitem__(self, place: int | slice) -> Emitted | list[Emitted]:
        return list(self)[place]


class EventQueue:
    """Events in order.

    Attributes:
        count: how many wait.
        size: bytes that they count for, with room for the form in which they are sent.
    """

    __slots__ = ("_stretches", "count", "size")

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self.count = 0
        self.size = 0

    def put(self, events: Sequence[Emitted], size: int) -> None:
        """Adds events; they are kept as they are.

        Args:
            events: at least one, in order.
            size: bytes of their payloads.
        """
        count = len(events)
        size += count * ENVELOPE_BYTES
        self._stretches.append(_Stretch(events, 0, count, size, size))
        self.count += count
        self.size += size

    def take(self, most: int, most_bytes: int) -> Joined:
        """The next events.

        Args:
            most: how many at most.
            most_bytes: bytes that they have at most; what came first comes whatever its size.
        """
        stretches, taken = self._stretches, list[_Stretch]()
        left, left_bytes = most, most_bytes
        while stretches and left:
            events, start, stop, size, bound = stretches[0]
            if taken and bound > left_bytes:
                break
            count = stop - start
            if count > left:
                # The largest may be among either half: both have the bound of the whole.
                part = size * left // count
                taken.append(_Stretch(events, start, start + left, part, bound))
                stretches[0] = _Stretch(events, start + left, stop, size - part, bound)
                size, count = part, left
            else:
                taken.append(stretches.popleft())
            left -= count
            left_bytes -= bound
            self.size -= size
        self.count -= most - left
        return Joined(taken, most - left)

    def clear(self) -> None:
        """Forgets what waits."""
        self._stretches.clear()
        self.count = 0
        self.size = 0
