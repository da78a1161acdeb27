"""What waits to be reported: every event comes out once, in order, in batches that keep to their bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.execution.event import Emitted
from runtime.execution.event_queue import ENVELOPE_BYTES, EventQueue
from runtime.executor.stream_event import Written, ndjson

STAMP = "2026-01-01T00:00:00.000Z"

together = st.lists(st.integers(2, 3000), min_size=1, max_size=120)
"""Sizes of the payloads of events that come together."""


def numbered(sizes: list[list[int]]) -> list[list[Emitted]]:
    groups, position = [], 0
    for group in sizes:
        events: list[Emitted] = []
        for size in group:
            position += 1
            events.append((position, "tick", b'"' + b"x" * (size - 2) + b'"', STAMP))
        groups.append(events)
    return groups


def size_of(events: list[Emitted]) -> int:
    return sum(len(payload) for _, _, payload, _ in events)


@given(st.lists(together, max_size=12), st.integers(1, 150), st.integers(1, 200_000), st.booleans())
def test_every_event_comes_out_once_and_in_order(
    sizes: list[list[int]], most: int, most_bytes: int, is_written: bool
) -> None:
    queue, groups = EventQueue(), numbered(sizes)
    for events in groups:
        queue.put(Written(ndjson("name", events), len(events)) if is_written else events, size_of(events))
    everything = [event for events in groups for event in events]
    assert queue.count == len(everything)
    assert queue.size == size_of(everything) + len(everything) * ENVELOPE_BYTES
    taken: list[Emitted] = []
    while queue.count:
        batch = queue.take(most, most_bytes)
        events = list(batch)
        assert 1 <= len(batch) == len(events) <= most
        assert batch[-1] == events[-1]
        weight = size_of(events) + len(events) * ENVELOPE_BYTES
        assert weight <= most_bytes or any(set(events) <= set(group) for group in groups)
        taken += events
        assert queue.count == len(everything) - len(taken)
    assert taken == everything
    assert queue.size == 0


def test_an_empty_queue_gives_nothing() -> None:
    queue = EventQueue()
    assert len(queue.take(10, 10)) == 0
    queue.put([(1, "tick", b"1", STAMP)], 1)
    queue.clear()
    assert (queue.count, queue.size, list(queue.take(10, 10))) == (0, 0, [])
