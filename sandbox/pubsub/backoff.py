"""When a message, or a whole push subscription, is tried again after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

PAUSE_MIN: Final = 0.1
"""Pub/Sub: shortest push backoff, seconds."""
PAUSE_MAX: Final = 60.0
"""Pub/Sub: longest push backoff, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A subscription's own retry policy.

    Attributes:
        minimum: delay after the first failure; Pub/Sub's default is 10 s.
        maximum: no delay is longer; Pub/Sub's default is 600 s.
    """

    minimum: timedelta = timedelta(seconds=10)
    maximum: timedelta = timedelta(seconds=600)

    def delay(self, failures: int) -> float:
        """Seconds before the next delivery of a message that failed so often: doubling, without jitter.

        Args:
            failures: 1 or more.
        """
        most = self.maximum.total_seconds()
        # Above 2**64 times the minimum no maximum matters, and floats would overflow.
        return float(min(most, self.minimum.total_seconds() * 2 ** min(failures - 1, 64)))


class PushBackoff:
    """Stops all pushes of a subscription for a while when they fail one after another.

    100 ms after the first failed round, twice as long after each further one, at most 60 s; one success ends it.
    Only pushes that began after the last pause count, so that many in flight at once are one failure.
    """

    def __init__(self) -> None:
        self.until = 0.0
        """On the monotonic clock: no push begins before."""
        self._rounds = 0

    def failed(self, started: float, now: float) -> None:
        """A push that began at `started` failed."""
        if started < self.until:
            return
        self.until = now + min(PAUSE_MAX, PAUSE_MIN * 2 ** min(self._rounds, 32))
        self._rounds += 1

    def succeeded(self) -> None:
        """A push was acknowledged."""
        self._rounds = 0
        self.until = 0.0
