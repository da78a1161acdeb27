"""The callbacks of a running job: what is sent, what is answered, what may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.states import FailureClass, ProgressStatus, RunState
from runtime.execution.event import NumberedEvents


class ProgressRequest(Struct, frozen=True, kw_only=True):
    """Takes, renews or ends a run's lease. Every None is left out of the body.

    Attributes:
        job_id: the run's generation.
        lease_token: who asks; random per attempt.
        status: RUNNING takes or renews, the others end the run.
        lease_duration_ms: how long the lease is wanted for.
        progress: 0 to 100.
        current_step: for people.
        error: one line.
        failure_class: why it did not succeed.
        last_failure_class: true cause behind RETRY_EXHAUSTED.
        status_code: user code's own, or None for the state's default.
        result: encoded JSON value.
    """

    job_id: str
    lease_token: str
    status: ProgressStatus
    lease_duration_ms: int | None = None
    progress: int | None = None
    current_step: str | None = None
    error: str | None = None
    failure_class: FailureClass | None = None
    last_failure_class: FailureClass | None = None
    status_code: int | None = None
    result: bytes | None = None


class ProgressAnswer(Struct, frozen=True, kw_only=True):
    """What the API says.

    Attributes:
        accepted: whether the request was applied, now or by an earlier equal request.
        status: the stored state.
        lease_acquired: whether the lease is the asker's; None where it was not asked for.
        lease_ms_left: rest of the lease by the store's clock, whoever holds it; None where there is none.
        attempt: attempts so far, this one included.
        next_sequence: of the next event.
        cancel_requested: whether the run is to stop.
        sent_at: monotonic time right before the request that was answered was sent.
    """

    accepted: bool
    status: RunState
    lease_acquired: bool | None = None
    lease_ms_left: int | None = None
    attempt: int = 0
    next_sequence: int = 0
    cancel_requested: bool = False
    sent_at: float = 0.0


class Cancellation(Struct, frozen=True, kw_only=True):
    """What a worker hears beside its lease.

    Attributes:
        cancel_requested: the run is to stop.
        ended: the run has ended, or goes on in another generation: nothing of this one counts any more.
    """

    cancel_requested: bool
    ended: bool


class EventsRequest(Struct, frozen=True, kw_only=True):
    """Events of a run, in order and without gaps."""

    job_id: str
    lease_token: str
    events: NumberedEvents


class CallbackError(HoldfastError):
    """Root of what a callback may raise."""

    code = "callback_error"


class CallbackUnavailable(CallbackError):
    """No usable answer inside the tries or the time that there were. It may have been applied."""

    code = "callback_unavailable"
    decision = Decision.RETRY


class CallbackRefused(CallbackError):
    """The API says no, and will go on saying no.

    Attributes:
        status: 400, 413, 422: of this request; 401, 403, 404: of the token or the run.
    """

    code = "callback_refused"
    decision = Decision.REFUSED

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def of_the_run(self) -> bool:
        """Whether every other request with this token would be refused too."""
        return self.status in (401, 403, 404)


class LeaseNotCurrent(CallbackError):
    """The lease belongs to somebody else, or to nobody."""

    code = "lease_not_current"
    decision = Decision.RETRY


class SequenceGap(CallbackError):
    """The API misses events before the ones that were sent."""

    code = "sequence_gap"
    decision = Decision.RETRY


Until = Callable[[], float]
"""Monotonic time after which a callback is no longer tried; asked again before every try."""


class EventCallback(Protocol):
    """The API as it takes events. Repeating a request is safe: the call does so itself."""

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        """Delivers events, and gives the sequence that the API expects next.

        Args:
            request: what to deliver.
            until: retried as long as there is time; None: as often as the settings say.

        Raises:
            CallbackUnavailable, CallbackRefused, LeaseNotCurrent, SequenceGap
        """
        ...


class Callbacks(EventCallback, Protocol):
    """The API's side of a running job."""

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        """Reports progress; repeated like `events`.

        Args:
            request: what to report.
            until: retried as long as there is time; None: as often as the settings say.

        Raises:
            CallbackUnavailable, CallbackRefused, LeaseNotCurrent
        """
        ...

    async def cancellation(self, *, wait: int) -> Cancellation:
        """Whether the run is to stop. Asked once.

        Args:
            wait: seconds for which the answer may be held back while there is nothing to say.

        Raises:
            CallbackUnavailable, CallbackRefused
        """
        ...
