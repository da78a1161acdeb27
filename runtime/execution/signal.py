"""An event for those who wait for more than one thing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal(asyncio.Event):
    """An event that also calls back when it is set: who waits for the first of several needs no task for each."""

    def __init__(self) -> None:
        super().__init__()
        self._called: set[Callable[[], None]] = set()

    def set(self) -> None:
        """See asyncio.Event."""
        super().set()
        for call in list(self._called):
            call()

    def call(self, back: Callable[[], None]) -> None:
        """Has something called each time that the event is set, until `forget`."""
        self._called.add(back)

    def forget(self, back: Callable[[], None]) -> None:
        """Undoes `call`."""
        self._called.discard(back)
