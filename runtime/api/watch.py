"""Wakes whoever waits for a run: at once when this process writes it, every second for what others write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from runtime.api.problem import unavailable
from runtime.ports.clock import Clock

POLL_SECONDS: Final = 1.0
"""Longest time until a waiter looks at the store again: another instance may have written."""
WATCHERS: Final = 1000
"""Most waits at one time in one process; each is a read of the store per second."""


class RunWatch:
    """The waits of one process, by run.

    Args:
        clock: for every wait.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signals: dict[str, set[asyncio.Event]] = {}
        self._waits = 0

    @property
    def waits(self) -> int:
        """Callers that wait now."""
        return self._waits

    def notify(self, run_id: str) -> None:
        """This process has written the run."""
        for signal in self._signals.get(run_id, ()):
            signal.set()

    def wake_all(self) -> None:
        """Every waiter looks again: the process drains."""
        for run_id in self._signals:
            self.notify(run_id)

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[asyncio.Event]:
        """A signal that `notify` sets, for as long as the block lasts.

        Raises:
            Problem: 503 `too_many_waits`.
        """
        if self._waits >= WATCHERS:
            raise unavailable(
                "too_many_waits", f"{WATCHERS} callers wait on this instance already; poll without waiting"
            )
        signal = asyncio.Event()
        self._waits += 1
        self._signals.setdefault(run_id, set()).add(signal)
        try:
            yield signal
        finally:
            self._waits -= 1
            self._signals[run_id].discard(signal)
            if not self._signals[run_id]:
                del self._signals[run_id]

    async def pause(self, signal: asyncio.Event, seconds: float) -> None:
        """Waits for the signal, for `seconds`, or for one poll, whichever is first; then the signal is unset again."""
        try:
            async with self._clock.timeout(min(seconds, POLL_SECONDS)):
                await signal.wait()
        except TimeoutError:
            pass
        signal.clear()


@contextlib.asynccontextmanager
async def waking_on_drain(watch: RunWatch, draining: asyncio.Event) -> AsyncIterator[None]:
    """Ends every wait of a process that drains, while the block lasts."""

    async def wake() -> None:
        await draining.wait()
        watch.wake_all()

    task = asyncio.create_task(wake(), name="wake waits on drain")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
