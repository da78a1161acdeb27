"""Events that wait to be reported: put in as they came together, taken out in batches, none of them looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from runtime.execution.event import Emitted, GatheredEvents, tails

ENVELOPE_BYTES: Final = 512
"""Room in a batch for one event's id, type, sequence and time, and for the batch's own fields."""


_Part = tuple[Sequence[Emitted], int, int, int, int]
"""Some of the events that came together: all of them, from where and to where, the bytes that these count for, and the
bytes that they have at most.
"""


class Joined(GatheredEvents):
    """Events of several parts as one sequence."""

    __slots__ = ("_count", "_parts")

    def __init__(self, parts: Sequence[_Part], count: int) -> None:
        self._parts = parts
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Emitted]:
        return chain.from_iterable(islice(events, start, stop) for events, start, stop, *_ in self._parts)

    def tails(self) -> Iterator[bytes]:
        """See GatheredEvents."""
        return chain.from_iterable(islice(tails(events), start, stop) for events, start, stop, *_ in self._parts)


class EventQueue:
    """Events in order.

    Attributes:
        count: how many wait.
        size: bytes that they count for, with room for the form in which they are sent.
    """

    __slots__ = ("_parts", "count", "size")

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()
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
        self._parts.append((events, 0, count, size, size))
        self.count += count
        self.size += size

    def take(self, most: int, most_bytes: int) -> Joined:
        """The next events.

        Args:
            most: how many at most.
            most_bytes: bytes that they have at most; what came first comes whatever its size.
        """
        parts, taken = self._parts, list[_Part]()
        left, left_bytes = most, most_bytes
        while parts and left:
            events, start, stop, size, bound = parts[0]
            if taken and bound > left_bytes:
                break
            count = stop - start
            if count > left:
                # The largest may be among either half: both have the bound of the whole.
                part = size * left // count
                taken.append((events, start, start + left, part, bound))
                parts[0] = (events, start + left, stop, size - part, bound)
                size, count = part, left
            else:
                taken.append(parts.popleft())
            left -= count
            left_bytes -= bound
            self.size -= size
        self.count -= most - left
        return Joined(taken, most - left)

    def clear(self) -> None:
        """Forgets what waits."""
        self._parts.clear()
        self.count = 0
        self.size = 0
