"""How an attempt at a run ended, as data: the worker settles and answers by it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from runtime.contract.errors import HoldfastError
from runtime.contract.states import FailureClass, RunState
from runtime.execution.callback_messages import CallbackRefused, LeaseNotCurrent


class AttemptKind(StrEnum):
    """What became of an attempt."""

    DONE = "done"
    """The run is in a terminal state that this attempt wrote, acknowledged."""
    ALREADY_TERMINAL = "already_terminal"
    """Somebody else ended the run, or a newer generation replaced it: there is nothing to do."""
    LEASE_BUSY = "lease_busy"
    """Another attempt holds the run; nothing was started."""
    NOT_ENOUGH_TIME = "not_enough_time"
    """The delivery has no time left for an engine; nothing was started."""
    API_UNAVAILABLE = "api_unavailable"
    """The lease could not be asked for; nothing was started."""
    LEASE_LOST = "lease_lost"
    """The lease went away while the engine worked; the engine was stopped."""
    REFUSED = "refused"
    """The API refuses the token or does not know the run."""
    UNACKNOWLEDGED = "unacknowledged"
    """Events or the end could not be delivered; the record does not say how the run ended."""
    ENGINE_ERROR = "engine_error"
    """The engine itself broke, or could not be started; the user's code is not at fault."""
    STOPPED = "stopped"
    """The process drains; the engine was stopped and the run not ended."""


class AttemptEnd(Struct, frozen=True, kw_only=True):
    """The end of an attempt.

    Attributes:
        kind: see AttemptKind.
        state: state of the run as far as it is known: the terminal one for DONE and ALREADY_TERMINAL.
        failure_class: why the run (DONE) or this attempt (otherwise) did not succeed; None where it did.
        detail: one line for the log and the dead letter; "" where there is nothing to say.
        attempt: number of the attempt; None where no lease was taken.
    """

    kind: AttemptKind
    state: RunState | None = None
    failure_class: FailureClass | None = None
    detail: str = ""
    attempt: int | None = None


def undelivered(error: HoldfastError, attempt: int | None) -> AttemptEnd:
    """The end of an attempt whose events or whose end did not reach the API."""
    if isinstance(error, LeaseNotCurrent):
        kind = AttemptKind.LEASE_LOST
    elif isinstance(error, CallbackRefused) and error.of_the_run:
        kind = AttemptKind.REFUSED
    else:
        kind = AttemptKind.UNACKNOWLEDGED
    return AttemptEnd(kind=kind, failure_class=FailureClass.DISPATCH_ERROR, detail=error.line(), attempt=attempt)
