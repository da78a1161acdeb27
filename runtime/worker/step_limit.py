"""How long a step at the end of a delivery may take; less in a process that drains."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Final

from runtime.ports.clock import Clock, Timer
from runtime.server import Lifecycle

STEP_SECONDS: Final = 7.0
"""Longest that one step of a settlement may take: letter, terminal state, claim. Three of them, and the stop of work
at its deadline, fit between that deadline and the end of the request."""
ANSWER_SECONDS: Final = 0.5
"""Of a drain's time, kept for the answer after the last step."""


class StepLimit:
    """A context that ends by TimeoutError when its time is over. A drain shortens it, also one that begins meanwhile.

    Args:
        lifecycle: of the process.
        clock: measures the time.
        seconds: longest where the process goes on.
        steps: this one and those that must follow it; they share what a drain leaves.
    """

    def __init__(self, lifecycle: Lifecycle, clock: Clock, seconds: float, *, steps: int = 1) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._seconds = seconds
        self._steps = steps
        self._scope: asyncio.Timeout
        self._draining: Timer | None = None

    async def __aenter__(self) -> None:
        self._scope = self._clock.timeout(min(self._seconds, self._left()))
        await self._scope.__aenter__()
        self._lifecycle.draining.call(self._shorten)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lifecycle.draining.forget(self._shorten)
        if self._draining is not None:
            self._draining.cancel()
        await self._scope.__aexit__(kind, error, trace)

    def _left(self) -> float:
        left = self._lifecycle.work_until - ANSWER_SECONDS - self._clock.monotonic()
        return max(0.0, left / self._steps)

    def _shorten(self) -> None:
        self._draining = self._clock.call_later(self._left(), self._expire)

    def _expire(self) -> None:
        # A scope that has expired by itself refuses to be moved.
        with contextlib.suppress(RuntimeError):
            self._scope.reschedule(asyncio.get_running_loop().time())
