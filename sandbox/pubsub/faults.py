"""What can be asked to go wrong in Pub/Sub."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sandbox.faults import FaultQueue
from sandbox.world import short_name


class Step(StrEnum):
    """Where a fault happens."""

    PUBLISH = "publish"
    """A publish call; its name is the topic."""
    PUSH = "push"
    """One push of one message; its name is the subscription."""


class Effect(StrEnum):
    """What goes wrong."""

    ERROR = "error"
    """Publish: refused, nothing stored. Push: not sent, and counted as refused with `status`."""
    DELAY = "delay"
    """Waits `seconds` before going on; a push's ack deadline runs meanwhile."""
    DUPLICATE = "duplicate"
    """Publish: stored twice, with two ids. Push: sent twice at the same time; the first one's answer counts."""
    REORDER = "reorder"
    """Push: the message is left for `seconds`, uncounted, so that those behind overtake it."""
    DROP_RESPONSE = "drop_response"
    """Done, but the answer is lost. Publish: the caller sees UNAVAILABLE. Push: counted as not answered."""


_STEPS: Final = {
    Step.PUBLISH: frozenset({Effect.ERROR, Effect.DELAY, Effect.DUPLICATE, Effect.DROP_RESPONSE}),
    Step.PUSH: frozenset(Effect),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        step: where.
        effect: what.
        name: topic or subscription, short or full; None means any.
        seconds: length of DELAY and REORDER.
        status: of ERROR: for a push an HTTP status, for a publish a gRPC code's number (14 is UNAVAILABLE).

    Raises:
        ValueError: the step does not have this effect.
    """

    step: Step
    effect: Effect
    name: str | None = None
    seconds: float = 1.0
    status: int = 0

    def __post_init__(self) -> None:
        if self.effect not in _STEPS[self.step]:
            raise ValueError(f"{self.step} has no fault {self.effect}; it has {', '.join(sorted(_STEPS[self.step]))}")


class Faults(FaultQueue[Fault]):
    """Faults of one Pub/Sub service."""

    def next(self, step: Step, name: str, *, effects: frozenset[Effect] = frozenset(Effect)) -> Fault | None:
        """The fault that the present call is to have, counted as used.

        Args:
            step: where the call is.
            name: its topic or subscription.
            effects: only these are taken.
        """
        return self.take(
            lambda fault: (
                fault.step is step
                and fault.effect in effects
                and (fault.name is None or short_name(fault.name) == short_name(name))
            )
        )
