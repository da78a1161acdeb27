"""Unacknowledged messages of one subscription: which is next, which is out, which comes back when.

Pure: no I/O and no clock; times are seconds on the caller's monotonic clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sandbox.pubsub.message import Message


@dataclass(slots=True, eq=False)
class Entry:
    """One message that is not acknowledged yet.

    Attributes:
        message: shared by the subscriptions of its topic.
        attempts: deliveries that were begun.
        available_at: not delivered before.
        lease: the delivery that is under way; None where there is none.
        place: number of its present place in the queue; older places no longer count.
    """

    message: Message
    attempts: int
    available_at: float
    lease: Lease | None = None
    place: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """One delivery under way.

    Attributes:
        id: what the subscriber acknowledges with; never used twice.
        entry: what was delivered.
        attempt: 1 for the first delivery.
        started: when it was begun.
    """

    id: str
    entry: Entry
    attempt: int
    started: float

    @property
    def message(self) -> Message:
        """What was delivered."""
        return self.entry.message


class Backlog:
    """The messages of one subscription.

    Args:
        ordered: messages of one ordering key go one after another: the next one only when the one before is settled.
        on_change: called after every change, at least once.
    """

    def __init__(self, *, ordered: bool, on_change: Callable[[], None]) -> None:
        self._ordered = ordered
        self._on_change = on_change
        self._entries: dict[int, Entry] = {}
        self._keys: dict[str, deque[Entry]] = {}
        self._queue: list[tuple[float, int, int, Entry]] = []
        self._leases: dict[str, Lease] = {}
        self._deadlines: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    @property
    def in_flight(self) -> int:
        """Deliveries under way."""
        return len(self._leases)

    @property
    def pending(self) -> int:
        """Messages waiting for a delivery."""
        return len(self._entries) - len(self._leases)

    def add(self, message: Message, *, attempts: int, now: float) -> None:
        """Adds a message; one that is there already stays as it is."""
        if message.id in self._entries:
            return
        entry = self._entries[message.id] = Entry(message, attempts, now)
        if self._keyed(entry):
            line = self._keys.setdefault(message.ordering_key, deque())
            line.append(entry)
            if line[0] is not entry:
                return
        self._offer(entry)

    def next_ready(self, now: float) -> Entry | None:
        """The message that would be delivered next; None where none is ready."""
        self._drop_stale()
        if self._queue and self._queue[0][0] <= now:
            return self._queue[0][3]
        return None

    def lease(self, entry: Entry, lease_id: str, *, now: float, deadline: float | None) -> Lease:
        """Begins a delivery of what `next_ready` returned, and counts it.

        Args:
            entry: the message.
            lease_id: a new id.
            now: the time.
            deadline: when it counts as failed; None where whoever delivers decides that.
        """
        entry.attempts += 1
        entry.place += 1
        entry.lease = self._leases[lease_id] = Lease(lease_id, entry, entry.attempts, now)
        if deadline is not None:
            self._deadlines[lease_id] = deadline
        self._on_change()
        return entry.lease

    def find(self, lease_id: str) -> Lease | None:
        """The delivery with this id, where it is under way."""
        return self._leases.get(lease_id)

    def extend(self, lease: Lease, deadline: float) -> None:
        """Moves the deadline of a delivery, later or sooner."""
        if lease.id in self._leases:
            self._deadlines[lease.id] = deadline
            self._on_change()

    def remove(self, entry: Entry) -> bool:
        """Ends a message, whether or not it is being delivered; False where it was gone already."""
        if self._entries.get(entry.message.id) is not entry:
            return False
        del self._entries[entry.message.id]
        entry.place += 1
        self._end_lease(entry)
        if self._keyed(entry):
            self._leave_line(entry)
        self._on_change()
        return True

    def put_back(self, lease: Lease, available_at: float) -> bool:
        """Ends a delivery without settling its message; False where the delivery was over already."""
        if self._leases.get(lease.id) is not lease:
            return False
        self._end_lease(lease.entry)
        self.defer(lease.entry, available_at)
        return True

    def defer(self, entry: Entry, available_at: float) -> None:
        """Holds a message that is not being delivered back until a later time; nothing is counted."""
        entry.available_at = available_at
        self._offer(entry)

    def lapsed(self, now: float) -> list[Lease]:
        """Deliveries whose deadline has passed, oldest first. The caller puts them back."""
        over = sorted((deadline, lease_id) for lease_id, deadline in self._deadlines.items() if deadline <= now)
        return [self._leases[lease_id] for _, lease_id in over]

    def published_before(self, moment: datetime) -> list[Entry]:
        """Messages that were published at or before a moment, oldest first."""
        found = []
        for entry in self._entries.values():
            if entry.message.published > moment:
                break
            found.append(entry)
        return found

    def next_moment(self) -> float | None:
        """When something becomes ready or lapses next; may be in the past; None where nothing waits."""
        self._drop_stale()
        moments = [*self._deadlines.values(), *(item[0] for item in self._queue[:1])]
        return min(moments, default=None)

    def _keyed(self, entry: Entry) -> bool:
        return self._ordered and bool(entry.message.ordering_key)

    def _offer(self, entry: Entry) -> None:
        entry.place += 1
        heapq.heappush(self._queue, (entry.available_at, entry.message.id, entry.place, entry))
        self._on_change()

    def _drop_stale(self) -> None:
        # An entry that was leased, deferred or removed leaves its old place in the queue behind.
        while self._queue and self._queue[0][2] != self._queue[0][3].place:
            heapq.heappop(self._queue)

    def _end_lease(self, entry: Entry) -> None:
        if entry.lease is not None:
            self._leases.pop(entry.lease.id, None)
            self._deadlines.pop(entry.lease.id, None)
            entry.lease = None

    def _leave_line(self, entry: Entry) -> None:
        line = self._keys[entry.message.ordering_key]
        first = line[0] is entry
        line.remove(entry)
        if not line:
            del self._keys[entry.message.ordering_key]
        elif first:
            self._offer(line[0])
