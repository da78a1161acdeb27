"""What the worker of a run waits for beside its work: that the run is to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from runtime.api.run_store import RunStore
from runtime.api.watch import RunWatch
from runtime.ports.clock import Clock

LOOK_SECONDS: Final = 0.75
"""Longest time until the record is looked at again, which another instance may have written: with the way there and
back a worker hears of a cancellation within a second."""
HELD: Final = 40
"""Most questions that one process holds, half of what an instance serves at a time by default; further ones are
answered at once, and asked again in less than a second, so that reports and callers find room."""


class Cancellations:
    """Answers workers.

    Args:
        runs: where the runs are.
        watch: wakes waits.
        clock: for their bounds.
        draining: ends every wait once set.
    """

    def __init__(self, runs: RunStore, watch: RunWatch, clock: Clock, draining: asyncio.Event) -> None:
        self._runs = runs
        self._watch = watch
        self._clock = clock
        self._draining = draining
        self._held = 0

    async def poll(
        self, run_id: str, job_id: str, wait: float, gone: Callable[[], bool] = lambda: False
    ) -> dict[str, object]:
        """Whether a run is to stop, or has ended already; waits up to `wait` seconds for either.

        Args:
            run_id: the run.
            job_id: the generation that the caller works on; to it, a run of another generation has ended.
            wait: seconds; 0 answers at once, and so does a process that holds HELD of them.
            gone: whether the caller left; nothing is held for one that did.

        Raises:
            Problem: 404 `run_not_found`, 503 `too_many_waits`.
        """
        ends_at = self._clock.monotonic() + (wait if self._held < HELD else 0)
        with self._holding(), self._watch.watching(run_id) as signal:
            while True:
                record = (await self._runs.get(run_id)).record
                ended = record.ended or record.job_id != job_id
                left = ends_at - self._clock.monotonic()
                over = left <= 0 or self._draining.is_set() or gone()
                if ended or record.cancel_requested or over:
                    return {"cancel_requested": record.cancel_requested, "ended": ended}
                await self._watch.pause(signal, min(left, LOOK_SECONDS))

    @contextmanager
    def _holding(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
