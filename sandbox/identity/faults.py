"""What can be asked to go wrong in identity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.faults import FaultQueue


class Step(StrEnum):
    """Where a fault happens."""

    KEYS = "keys"
    """A read of the public key set."""
    METADATA = "metadata"
    """A call of a metadata server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        step: where.
        status: answer with this HTTP status and nothing useful; None answers as always.
        seconds: wait this long before the answer; 0 does not wait.
    """

    step: Step
    status: int | None = None
    seconds: float = 0


class Faults(FaultQueue[Fault]):
    """Faults of one identity service."""

    def next(self, step: Step) -> Fault | None:
        """The fault that the present call is to have, counted as used."""
        return self.take(lambda fault: fault.step is step)
