"""A run's events as they come: one long poll, or a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from runtime.api.event_log import EventLog
from runtime.api.run_record import RunRecord
from runtime.api.run_store import RunStore
from runtime.api.watch import POLL_SECONDS, RunWatch
from runtime.ports.clock import Clock

WAIT_MAX: Final = 30
"""Longest wait of a long poll, seconds."""
STREAM_BATCHES: Final = 2
"""Batches that a stream holds at a time."""


@dataclass(frozen=True, slots=True)
class Page:
    """Events read at one time.

    Attributes:
        record: the run, read before its events.
        events: in order; empty where nothing is new.
        last: highest sequence that is dealt with; the next read goes on after it.
    """

    record: RunRecord
    events: list[dict[str, object]]
    last: int

    @property
    def complete(self) -> bool:
        """Whether the run has ended and no event is left."""
        return self.record.ended and self.last + 1 >= self.record.next_sequence


class EventFeed:
    """Follows runs without reading the store more than once a second.

    Args:
        runs: where the runs are.
        log: where their events are.
        watch: wakes waits.
        clock: for their bounds.
        draining: ends every wait once set.
    """

    def __init__(self, runs: RunStore, log: EventLog, watch: RunWatch, clock: Clock, draining: asyncio.Event) -> None:
        self._runs = runs
        self._log = log
        self._watch = watch
        self._clock = clock
        self._draining = draining

    async def poll(self, run_id: str, after: int, wait: float) -> Page:
        """The events after a sequence; waits up to `wait` seconds for the first one, or for the end of the run.

        Raises:
            Problem: 404 `run_not_found`, 503 `too_many_waits`.
        """
        page = await self._page(run_id, after)
        if wait <= 0 or page.events or page.complete:
            return page
        ends_at = self._clock.monotonic() + wait
        with self._watch.watching(run_id) as signal:
            while True:
                page = await self._page(run_id, after)
                left = ends_at - self._clock.monotonic()
                if page.events or page.complete or left <= 0 or self._draining.is_set():
                    return page
                await self._watch.pause(signal, left)

    async def follow(self, run_id: str, after: int, seconds: float) -> AsyncGenerator[Page, None]:
        """Pages without end until the run's last event, `seconds`, or a drain; one about every second, empty ones too.

        The last page of a run that has ended is `complete`.

        Raises:
            Problem: 404 `run_not_found`, 503 `too_many_waits`.
        """
        ends_at = self._clock.monotonic() + seconds
        with self._watch.watching(run_id) as signal:
            while not self._draining.is_set() and self._clock.monotonic() < ends_at:
                page = await self._page(run_id, after, STREAM_BATCHES)
                yield page
                if page.complete:
                    return
                after = page.last
                if not page.events:
                    await self._watch.pause(signal, POLL_SECONDS)

    async def _page(self, run_id: str, after: int, batches: int | None = None) -> Page:
        record = (await self._runs.get(run_id)).record
        events = await self._log.read(record, after, batches) if batches else await self._log.read(record, after)
        if events:
            return Page(record, events, _sequence(events[-1]))
        # Nothing was found: what the record counts beyond is deleted already, and is not waited for.
        return Page(record, events, max(after, record.next_sequence - 1))


def _sequence(event: dict[str, object]) -> int:
    sequence = event["sequence"]
    return sequence if isinstance(sequence, int) else -1
