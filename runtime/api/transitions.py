"""Every move that a run can make: pure functions from a record to the next one. Nobody else builds a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from runtime.api.run_record import HISTORY_ENTRIES, PUBLISH_GRACE, HistoryEntry, RunRecord
from runtime.contract import names
from runtime.contract.errors import HoldfastError
from runtime.contract.states import (
    STATE_OF_PROGRESS,
    STATUS_CODE_OF_STATE,
    FailureClass,
    ProgressStatus,
    RunMode,
    RunState,
    may_move,
)

RETRYABLE: Final = frozenset(
    {
        FailureClass.BACKPRESSURE,
        FailureClass.ACTIVATION_TIMEOUT,
        FailureClass.DISPATCH_ERROR,
        FailureClass.RESULT_STORE_ERROR,
    }
)
"""Classes that a later attempt may not meet; the cause of a run that expires in the queue is one of them."""


class IllegalMove(HoldfastError):
    """A move that the contract's table does not have; a programming error."""

    code = "illegal_move"


class Ruling(StrEnum):
    """What a record says to a worker's call."""

    RECORDED = "recorded"
    """The record moves as asked."""
    REPEATED = "repeated"
    """The same call was recorded before."""
    BUSY = "busy"
    """Another worker's lease is live."""
    NOT_CURRENT = "not_current"
    """The caller's lease is not the record's."""
    ENDED = "ended"
    """The run has ended, or the job is of an older generation."""
    GAP = "gap"
    """Events are missing in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who calls: a broker job and the lease token of one attempt."""

    job_id: str
    lease_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a running attempt says of itself; None leaves what is recorded."""

    progress: float | None = None
    current_step: str | None = None
    last_failure_class: FailureClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended a run. None means the default of the state.

    Attributes:
        status: not RUNNING.
        has_result: whether a result is stored beside.
    """

    status: ProgressStatus
    status_code: int | None = None
    failure_class: FailureClass | None = None
    last_failure_class: FailureClass | None = None
    error: str | None = None
    has_result: bool = False


def mark_published(record: RunRecord, job_id: str, at: datetime) -> RunRecord | None:
    """The message of a generation is with the broker; None where the record knows, or has gone on."""
    if record.job_id != job_id or record.state is not RunState.QUEUED:
        return None
    return _moved(record, RunState.DISPATCHING, at, publish_after=None, dispatched_at=at)


def reserve_publication(record: RunRecord, at: datetime) -> RunRecord | None:
    """Puts the next try off, before this one: two sweepers then never publish one run; None where it is not due."""
    if record.ended or record.publish_after is None or at < record.publish_after or at >= record.queue_deadline:
        return None
    return msgspec.structs.replace(record, publish_after=at + PUBLISH_GRACE)


def take_lease(
    record: RunRecord, holder: Holder, duration: timedelta, note: Note, now: datetime
) -> tuple[Ruling, RunRecord | None]:
    """Takes a free or lapsed lease, or renews the caller's own.

    Args:
        record: as stored.
        holder: a new lease token begins an attempt, an equal one goes on with it.
        duration: zero gives the lease back.
        note: recorded where the lease is granted.
        now: store time of the read of `record`.

    Returns:
        RECORDED with the new record, or BUSY or ENDED with None.
    """
    if record.ended or record.job_id != holder.job_id:
        return Ruling.ENDED, None
    changes: dict[str, Any] = {"lease_expires_at": now + duration, **_noted(note)}
    if record.state is RunState.RUNNING and record.lease_token == holder.lease_token:
        return Ruling.RECORDED, msgspec.structs.replace(record, **changes)
    if record.leased(now):
        return Ruling.BUSY, None
    taken = _moved(
        record,
        RunState.RUNNING,
        now,
        attempt=record.attempt + 1,
        lease_token=holder.lease_token,
        # Who holds the message proves that it was published.
        publish_after=None,
        dispatched_at=record.dispatched_at or now,
        started_at=record.started_at or now,
        progress=note.progress,
        current_step=note.current_step,
        lease_expires_at=now + duration,
        last_failure_class=note.last_failure_class or record.last_failure_class,
    )
    return Ruling.RECORDED, taken


def record_events(record: RunRecord, holder: Holder, first: int, count: int) -> tuple[Ruling, RunRecord | None]:
    """Accepts events `first` to `first + count - 1`, of which the ones already recorded count as repeated.

    Returns:
        RECORDED with the new record, or REPEATED, NOT_CURRENT or GAP with None.
    """
    if record.job_id != holder.job_id or record.lease_token != holder.lease_token:
        return Ruling.NOT_CURRENT, None
    if first + count <= record.next_sequence:
        return Ruling.REPEATED, None
    if record.state is not RunState.RUNNING:
        return Ruling.NOT_CURRENT, None
    if first > record.next_sequence:
        return Ruling.GAP, None
    return Ruling.RECORDED, msgspec.structs.replace(record, next_sequence=first + count)


def finish(record: RunRecord, holder: Holder, ending: Ending, now: datetime) -> tuple[Ruling, RunRecord | None]:
    """Ends a run as its worker says.

    A lease that lapsed is still the record's until another is taken: work that was done counts. A dead letter needs
    no lease of its own, only that no other is live.

    Returns:
        RECORDED with the new record, or REPEATED, NOT_CURRENT, BUSY or ENDED with None.
    """
    state = STATE_OF_PROGRESS[ending.status]
    if record.job_id != holder.job_id:
        return Ruling.ENDED, None
    holds = record.lease_token == holder.lease_token
    if record.ended:
        return (Ruling.REPEATED if holds and record.state is state else Ruling.ENDED), None
    if not holds and ending.status is not ProgressStatus.DEAD_LETTERED:
        return Ruling.NOT_CURRENT, None
    if not holds and record.leased(now):
        return Ruling.BUSY, None
    return Ruling.RECORDED, _ended(
        record,
        state,
        now,
        lease_token=holder.lease_token,
        status_code=ending.status_code or _status_code(state, ending.failure_class),
        failure_class=ending.failure_class or _failure_class(state),
        last_failure_class=ending.last_failure_class or record.last_failure_class,
        error=ending.error,
        has_result=ending.has_result,
    )


def fail(record: RunRecord, failure_class: FailureClass, error: str, now: datetime) -> RunRecord | None:
    """Ends a run that cannot be worked; None where it has ended."""
    if record.ended:
        return None
    code = STATUS_CODE_OF_STATE[RunState.FAILED]
    return _ended(record, RunState.FAILED, now, status_code=code, failure_class=failure_class, error=error)


def dead_letter(
    record: RunRecord,
    job_id: str,
    failure_class: FailureClass,
    last_failure_class: FailureClass | None,
    error: str,
    now: datetime,
) -> tuple[Ruling, RunRecord | None]:
    """Ends a run whose message the broker gave up.

    Returns:
        RECORDED with the new record; BUSY with None where a live lease still works on it; ENDED with None where this
        generation is over.
    """
    if record.ended or record.job_id != job_id:
        return Ruling.ENDED, None
    if record.leased(now):
        return Ruling.BUSY, None
    return Ruling.RECORDED, _ended(
        record,
        RunState.DEAD_LETTERED,
        now,
        status_code=STATUS_CODE_OF_STATE[RunState.DEAD_LETTERED],
        failure_class=failure_class,
        last_failure_class=last_failure_class or record.last_failure_class,
        error=error,
    )


def ended_without_work(record: RunRecord) -> bool:
    """Whether a run came to an end in which no attempt had a say: given up, or expired while it waited for one."""
    expired = record.state is RunState.EXPIRED and record.failure_class in RETRYABLE
    return expired or record.state is RunState.DEAD_LETTERED


def replay(record: RunRecord, max_queue_age: timedelta, now: datetime) -> RunRecord:
    """Begins the next generation of a run that did not succeed; the only way out of a terminal state.

    Attempts and events go on counting; everything that the ended generation left is cleared.

    Raises:
        IllegalMove: the run has not ended, succeeded or was cancelled.
    """
    generation = record.generation + 1
    return _moved(
        record,
        RunState.QUEUED,
        now,
        replay=True,
        generation=generation,
        job_id=names.job_id(record.run_id, generation),
        queued_at=now,
        queue_deadline=now + max_queue_age,
        publish_after=now + PUBLISH_GRACE,
        dispatched_at=None,
        started_at=None,
        completed_at=None,
        lease_token=None,
        lease_expires_at=None,
        cancel_requested=False,
        progress=None,
        current_step=None,
        status_code=None,
        failure_class=None,
        last_failure_class=None,
        error=None,
        has_result=False,
    )


def cancel(record: RunRecord, now: datetime) -> RunRecord | None:
    """Ends a run that no attempt has begun, else asks its attempt to stop; None where there is nothing to do."""
    if record.ended:
        return None
    if record.state is not RunState.RUNNING:
        return _cancelled(record, now)
    return None if record.cancel_requested else msgspec.structs.replace(record, cancel_requested=True)


def give_up(record: RunRecord, now: datetime) -> RunRecord | None:
    """Ends a run that nobody holds and that is past its queue deadline, or was to be cancelled; None otherwise."""
    if record.ended or record.leased(now):
        return None
    if record.cancel_requested:
        return _cancelled(record, now)
    if now < record.queue_deadline:
        return None
    if record.mode is not RunMode.ASYNC:
        return _ended(
            record,
            RunState.EXPIRED,
            now,
            status_code=STATUS_CODE_OF_STATE[RunState.EXPIRED],
            failure_class=FailureClass.FRAMEWORK_TIMEOUT,
            error=f"nothing was heard of the run within its timeout of {record.timeout}",
        )
    last = record.last_failure_class
    return _ended(
        record,
        RunState.EXPIRED,
        now,
        status_code=STATUS_CODE_OF_STATE[RunState.EXPIRED],
        failure_class=last if last in RETRYABLE else FailureClass.DISPATCH_ERROR,
        error=f"the run did not end within {record.queue_deadline - record.queued_at} of being queued",
    )


def _cancelled(record: RunRecord, now: datetime) -> RunRecord:
    code = STATUS_CODE_OF_STATE[RunState.CANCELLED]
    return _ended(record, RunState.CANCELLED, now, status_code=code, cancel_requested=True)


def _ended(record: RunRecord, state: RunState, now: datetime, **changes: Any) -> RunRecord:
    changes.setdefault("error", None)
    reason = changes.get("failure_class")
    return _moved(
        record, state, now, reason=reason, completed_at=now, lease_expires_at=None, publish_after=None, **changes
    )


def _moved(
    record: RunRecord, state: RunState, at: datetime, *, reason: str | None = None, replay: bool = False, **changes: Any
) -> RunRecord:
    if not may_move(record.state, state, replay=replay):
        raise IllegalMove(f"run {record.run_id} cannot go from {record.state} to {state}")
    attempt = changes.get("attempt", record.attempt) or None
    generation = changes.get("generation", record.generation)
    entry = HistoryEntry(state=state, at=at, generation=generation, attempt=attempt, reason=reason)
    history = (*record.history[:1], *record.history[1:][-(HISTORY_ENTRIES - 2) :], entry)
    return msgspec.structs.replace(record, state=state, history=history, **changes)


def _noted(note: Note) -> dict[str, Any]:
    said = {
        "progress": note.progress,
        "current_step": note.current_step,
        "last_failure_class": note.last_failure_class,
    }
    return {name: value for name, value in said.items() if value is not None}


def _failure_class(state: RunState) -> FailureClass | None:
    return {
        RunState.FAILED: FailureClass.FRAMEWORK_ERROR,
        RunState.EXPIRED: FailureClass.FRAMEWORK_TIMEOUT,
        RunState.DEAD_LETTERED: FailureClass.RETRY_EXHAUSTED,
    }.get(state)


def _status_code(state: RunState, failure_class: FailureClass | None) -> int:
    return 503 if failure_class is FailureClass.NO_WORKER_TEMPLATE else STATUS_CODE_OF_STATE[state]
