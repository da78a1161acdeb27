"""What can be asked to go wrong in the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.faults import FaultQueue


class Effect(StrEnum):
    """What goes wrong with one try of a job."""

    ERROR = "error"
    """Not sent, and counted as answered with `status`."""
    DELAY = "delay"
    """Waits `seconds` before it is sent; the try's deadline runs meanwhile."""
    DUPLICATE = "duplicate"
    """Sent twice at the same time; the first one's answer counts."""
    DROP_RESPONSE = "drop_response"
    """Sent, and counted as not answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        effect: what.
        job: its name; None means any.
        seconds: length of DELAY.
        status: HTTP status of ERROR.
    """

    effect: Effect
    job: str | None = None
    seconds: float = 1.0
    status: int = 503


class Faults(FaultQueue[Fault]):
    """Faults of one scheduler."""

    def next(self, job: str) -> Fault | None:
        """The fault that the present try is to have, counted as used."""
        return self.take(lambda fault: fault.job is None or fault.job == job)
