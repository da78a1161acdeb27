"""Time as a dependency: tests move a clock, they do not sleep."""

from __future__ import annotations

from asyncio import Timeout
from datetime import datetime
from typing import Protocol


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
