"""The system's clock, and one that tests move."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from runtime.ports.clock import Timer

_TURNS: Final = 50
"""Enough for chains of callbacks, queues and task switches to come to rest."""


class _Later:
    """Something that a moved clock has due."""

    def __init__(self, context: contextvars.Context, action: Callable[[], object]) -> None:
        self._context = context
        self._action: Callable[[], object] | None = action

    def come(self) -> None:
        """Its time has come."""
        if self._action is not None:
            self._context.run(self._action)

    def cancel(self) -> None:
        """See Timer."""
        self._action = None


class SystemClock:
    """Real time, through the running event loop."""

    timestamp = staticmethod(time.time)
    """See Clock."""

    monotonic = staticmethod(time.monotonic)
    """See Clock. What event loops take their time from, without asking for the loop first."""

    def now(self) -> datetime:
        """See Clock."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(max(0.0, seconds))

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """See Clock."""
        return asyncio.timeout(None if seconds is None else max(0.0, seconds))

    def call_later(self, seconds: float, action: Callable[[], object]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), action)


class ManualClock:
    """A clock that stands still until it is moved; waits end exactly when their time is reached, in order.

    Args:
        start: wall time at the beginning; None means 2026-01-01T00:00:00Z.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._skew = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> datetime:
        """See Clock."""
        return self._start + timedelta(seconds=self._elapsed + self._skew)

    def timestamp(self) -> float:
        """See Clock."""
        return self.now().timestamp()

    def monotonic(self) -> float:
        """See Clock; starts at 0."""
        return self._elapsed

    def skew(self, seconds: float) -> None:
        """Moves the wall clock alone, as a wrong or corrected system clock does."""
        self._skew += seconds

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        self._at(self._elapsed + seconds, wake)
        await reached

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """See Clock."""
        scope = asyncio.timeout(None)
        if seconds is None:
            return scope
        if seconds <= 0:
            return asyncio.timeout(0)

        def expire() -> None:
            # A scope that was left, or never entered, refuses to be rescheduled: then nothing waits for it.
            try:
                scope.reschedule(asyncio.get_running_loop().time())
            except RuntimeError:
                return

        self._at(self._elapsed + seconds, expire)
        return scope

    def call_later(self, seconds: float, action: Callable[[], object]) -> Timer:
        """See Clock."""
        later = _Later(contextvars.copy_context(), action)
        self._at(self._elapsed + max(0.0, seconds), later.come)
        return later

    async def advance(self, seconds: float) -> None:
        """Moves time forward, stopping at every wait on the way so that what it wakes can run and wait again."""
        await self._settle()
        target = self._elapsed + seconds
        while self._due and self._due[0][0] <= target:
            at, _, action = heapq.heappop(self._due)
            self._elapsed = max(self._elapsed, at)
            action()
            await self._settle()
        self._elapsed = target
        await self._settle()

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (moment, next(self._order), action))

    @staticmethod
    async def _settle() -> None:
        # asyncio's own loop shows what is still to run; elsewhere a number of turns has to do.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if ready is not None and not ready:
                return
