"""The time as events carry it."""

from __future__ import annotations

from datetime import UTC, datetime

from runtime.ports.clock import Clock


class Stamps:
    """Times in RFC 3339, UTC, to the millisecond, each written once.

    Args:
        clock: time.

    Attributes:
        begin, end: seconds since 1970 between which `text` is the time.
        text: the time that was written last.
    """

    __slots__ = ("_moment", "_second", "_time", "begin", "end", "text")

    def __init__(self, clock: Clock) -> None:
        self._time = clock.timestamp
        self._second = -1
        self._moment = ""
        self.begin = self.end = 0.0
        self.text = ""

    def now(self) -> str:
        """The time."""
        now = self._time()
        return self.text if self.begin <= now < self.end else self.write(now)

    def write(self, now: float) -> str:
        """A time that is not written yet, in seconds since 1970."""
        milliseconds = int(now * 1000)
        second, rest = divmod(milliseconds, 1000)
        if second != self._second:
            self._second = second
            self._moment = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self.begin, self.end = milliseconds / 1000, (milliseconds + 1) / 1000
        self.text = f"{self._moment}.{rest:03d}Z"
        return self.text
