"""Run states, failure classes and the moves between them. State and class are two axes and never share an enum."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class RunState(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    """Accepted and recorded; not known to be published."""
    DISPATCHING = "dispatching"
    """Published to its topic (asynchronous), or handed to the executor (synchronous)."""
    RUNNING = "running"
    """A lease is, or was, held by an attempt."""
    SUCCEEDED = "succeeded"
    """The engine finished and its status is below 400."""
    FAILED = "failed"
    """The engine finished with an error, or the run could not be placed."""
    EXPIRED = "expired"
    """The run's deadline or its queue age passed."""
    CANCELLED = "cancelled"
    """Ended on request."""
    DEAD_LETTERED = "dead_lettered"
    """Given up by the queue: unreadable, or its attempts are used."""


TERMINAL: Final = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.EXPIRED, RunState.CANCELLED, RunState.DEAD_LETTERED}
)
"""States that only a replay leaves."""

REPLAYABLE: Final = frozenset({RunState.DEAD_LETTERED, RunState.FAILED, RunState.EXPIRED})
"""Terminal states from which a replay may start; `succeeded` and `cancelled` are not among them."""

_OPEN: Final = frozenset({RunState.QUEUED, RunState.DISPATCHING, RunState.RUNNING})

TRANSITIONS: Final[Mapping[RunState, frozenset[RunState]]] = MappingProxyType(
    {
        RunState.QUEUED: frozenset({RunState.DISPATCHING, RunState.RUNNING}) | TERMINAL - {RunState.SUCCEEDED},
        RunState.DISPATCHING: frozenset({RunState.RUNNING, RunState.QUEUED}) | TERMINAL - {RunState.SUCCEEDED},
        RunState.RUNNING: frozenset({RunState.RUNNING, RunState.QUEUED}) | TERMINAL,
        **{state: frozenset({RunState.QUEUED}) for state in REPLAYABLE},
        RunState.SUCCEEDED: frozenset(),
        RunState.CANCELLED: frozenset(),
    }
)
"""Allowed moves. `queued -> running` is a worker that was faster than the mark of its publication."""


def may_move(before: RunState, after: RunState, *, replay: bool = False) -> bool:
    """Whether a record may go from one state to another.

    Args:
        before: the stored state.
        after: the wanted state.
        replay: True only for the replay of a dead letter, the one way out of a terminal state.
    """
    if before in TERMINAL and not replay:
        return False
    if before not in TERMINAL and replay:
        return False
    return after in TRANSITIONS[before]


class FailureClass(StrEnum):
    """Why a run did not succeed, for alerting and support; independent of any HTTP status."""

    MALFORMED_MESSAGE = "malformed_message"
    """The queue's message could not be read."""
    NO_WORKER_TEMPLATE = "no_worker_template"
    """The run names an engine or endpoint that is not there."""
    FRAMEWORK_ERROR = "framework_error"
    """User code failed, or answered with a status of 400 or more."""
    FRAMEWORK_TIMEOUT = "framework_timeout"
    """User code did not finish inside the run's deadline."""
    BACKPRESSURE = "backpressure"
    """Capacity was missing; deferred, never counted as an attempt."""
    ACTIVATION_TIMEOUT = "activation_timeout"
    """A place to run did not become ready in time."""
    DISPATCH_ERROR = "dispatch_error"
    """The work could not be handed over: payload, callback or store out of reach."""
    RESULT_STORE_ERROR = "result_store_error"
    """The result could not be recorded."""
    RETRY_EXHAUSTED = "retry_exhausted"
    """Every attempt was used; the true cause is in `last_failure_class`."""


class RunMode(StrEnum):
    """How the caller waits for a run."""

    ASYNC = "async"
    """Answered at once; worked from the queue."""
    SYNC = "sync"
    """Answered with the result, through the executor."""
    STREAM = "stream"
    """Answered with the run's events as they come, through the executor."""


class ProgressStatus(StrEnum):
    """The `status` field of a progress callback."""

    RUNNING = "running"
    """Takes or renews the lease."""
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    DEAD_LETTERED = "dead_lettered"
    """Sent by a worker that gives a message up."""


STATE_OF_PROGRESS: Final[Mapping[ProgressStatus, RunState]] = MappingProxyType(
    {
        ProgressStatus.RUNNING: RunState.RUNNING,
        ProgressStatus.COMPLETED: RunState.SUCCEEDED,
        ProgressStatus.FAILED: RunState.FAILED,
        ProgressStatus.TIMEOUT: RunState.EXPIRED,
        ProgressStatus.CANCELLED: RunState.CANCELLED,
        ProgressStatus.DEAD_LETTERED: RunState.DEAD_LETTERED,
    }
)
"""The run state that each progress status asks for."""

STATUS_CODE_OF_STATE: Final[Mapping[RunState, int]] = MappingProxyType(
    {
        RunState.SUCCEEDED: 200,
        RunState.FAILED: 502,
        RunState.EXPIRED: 504,
        RunState.CANCELLED: 499,
        RunState.DEAD_LETTERED: 500,
    }
)
"""Status code of a result where user code gave none."""
