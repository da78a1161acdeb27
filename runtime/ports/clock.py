"""Time as a dependency: tests move a clock, they do not sleep."""

from __future__ import annotations

from asyncio import Timeout
from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Timer(Protocol):
    """Something that is due later."""

    def cancel(self) -> object:
        """It is not wanted any more; nothing happens where it is over."""
        ...


class Clock(Protocol):
    """A source of time and the only way to wait."""

    def now(self) -> datetime:
        """Wall clock, UTC, aware. For records and token times; never for judging another machine's age."""
        ...

    def timestamp(self) -> float:
        """The same as seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow. For every budget and deadline inside one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits; 0 or less only gives the loop a turn."""
        ...

    def timeout(self, seconds: float | None) -> Timeout:
        """Like `asyncio.timeout`, on this clock. None means no limit; 0 or less expires at the first wait."""
        ...

    def call_later(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Calls something, in the context of its maker, once the time has passed. Cheaper than a task that sleeps."""
        ...
