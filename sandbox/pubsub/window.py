"""How many pushes of one subscription are in flight at once."""

from __future__ import annotations

from typing import Final

SMALLEST: Final = 4
"""Where the window starts and what it never goes below; Pub/Sub: a small single-digit number."""
LARGEST: Final = 256
"""Pub/Sub has no fixed limit below about 3000; one machine has fewer sockets and instances."""


class PushWindow:
    """Slow start: one more for every acknowledged push, which doubles it per round trip; half for every failed one."""

    def __init__(self) -> None:
        self._size = float(SMALLEST)

    @property
    def size(self) -> int:
        """Pushes that may be in flight now."""
        return int(self._size)

    def acknowledged(self) -> None:
        """A push was answered with a success."""
        self._size = min(float(LARGEST), self._size + 1)

    def failed(self) -> None:
        """A push was refused or not answered."""
        self._size = max(float(SMALLEST), self._size / 2)
