"""What the API knows of a run, and the document it is kept in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from runtime.contract import names
from runtime.contract.errors import HoldfastError
from runtime.contract.states import TERMINAL, FailureClass, RunMode, RunState
from runtime.ports.documents import Value

WAITED_GRACE: Final = timedelta(seconds=60)
"""How long after its timeout a run whose caller waits may still be reported; then the sweeper ends it."""
PUBLISH_GRACE: Final = timedelta(seconds=60)
"""How long a run may be unpublished before the sweeper publishes it, and its pause between two tries."""
HISTORY_ENTRIES: Final = 32
"""Most entries of a history. The first stays, then the newest; attempt numbers show where some were left out."""


class RecordUnreadable(HoldfastError):
    """A stored run that this version cannot read."""

    code = "record_unreadable"


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One move of a run."""

    state: RunState
    at: datetime
    generation: int
    attempt: int | None = None
    reason: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run. Changed only by the functions of `transitions`.

    Attributes:
        submission_id: random; tells this run from an earlier one of the same id whose record is gone.
        mode: ASYNC runs are worked from the queue; the others by the executor, and are never published.
        write_id: random per write; how a writer recognises its own write after an unclear answer.
        user_id: name of the API key that asked for the run.
        job_id: broker job of the present generation.
        request_hash: see RunRequest.
        queued_at: start of the present generation.
        queue_deadline: when a run that no live lease holds is given up.
        publish_after: while unpublished, when the sweeper publishes; None once published.
        attempt: leases taken so far.
        lease_token: holder of the lease, or who ended the run; None before the first attempt.
        lease_expires_at: store time at which the lease lapses; None where none is held.
        next_sequence: sequence of the next event; goes on over attempts and generations.
        progress: per cent, as the running attempt last said.
        has_result: whether a result document belongs to the present ending.
    """

    run_id: str
    submission_id: str
    state: RunState
    generation: int
    mode: RunMode
    app_id: str
    user_id: str
    engine: str
    job_id: str
    request_hash: str
    timeout_ms: int
    max_attempts: int
    labels: dict[str, str]
    created_at: datetime
    queued_at: datetime
    queue_deadline: datetime
    publish_after: datetime | None
    history: tuple[HistoryEntry, ...]
    write_id: str = ""
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    attempt: int = 0
    lease_token: str | None = None
    lease_expires_at: datetime | None = None
    next_sequence: int = 0
    cancel_requested: bool = False
    progress: float | None = None
    current_step: str | None = None
    status_code: int | None = None
    failure_class: FailureClass | None = None
    last_failure_class: FailureClass | None = None
    error: str | None = None
    has_result: bool = False

    def __repr__(self) -> str:
        """Without the lease token."""
        return f"RunRecord({self.run_id} {self.state} generation={self.generation} attempt={self.attempt})"

    @property
    def ended(self) -> bool:
        """Whether only a replay moves it on."""
        return self.state in TERMINAL

    @property
    def published(self) -> bool:
        """Whether the message of the present generation is known to be published."""
        return self.publish_after is None

    @property
    def timeout(self) -> timedelta:
        """How long one attempt may take."""
        return timedelta(milliseconds=self.timeout_ms)

    @property
    def sweep_at(self) -> datetime | None:
        """When the sweeper looks at the run next; None once it has ended."""
        if self.ended:
            return None
        if self.publish_after is not None:
            return min(self.publish_after, self.queue_deadline)
        if self.lease_expires_at is None:
            return self.queue_deadline
        return self.lease_expires_at if self.cancel_requested else max(self.queue_deadline, self.lease_expires_at)

    def leased(self, now: datetime) -> bool:
        """Whether a live lease holds it at a store time."""
        return self.lease_expires_at is not None and now < self.lease_expires_at

    def kept_until(self, written_at: datetime, retention: timedelta) -> datetime:
        """When its documents may go. An open run is kept past its queue deadline, so that none goes before it ends."""
        return (written_at if self.ended else max(written_at, self.queue_deadline)) + retention

    def document(self, expires_at: datetime) -> dict[str, Value]:
        """The stored form. `sweep_at` is left out once the run has ended: a query on it then passes the run over."""
        data: dict[str, Value] = msgspec.to_builtins(self, builtin_types=(datetime,))
        data["history"] = [msgspec.to_builtins(entry, builtin_types=(datetime,)) for entry in self.history]
        data["published"] = self.published
        data[names.TTL_FIELD] = expires_at
        if self.sweep_at is not None:
            data["sweep_at"] = self.sweep_at
        return data


def read_record(data: Mapping[str, Value]) -> RunRecord:
    """The run of a stored document; members of a later version are passed over.

    Raises:
        RecordUnreadable
    """
    try:
        return msgspec.convert(dict(data), RunRecord)
    except msgspec.ValidationError as error:
        raise RecordUnreadable(f"the record of run {data.get('run_id')!r} cannot be read: {error}") from error


def new_record(
    *,
    run_id: str,
    submission_id: str,
    mode: RunMode,
    app_id: str,
    user_id: str,
    engine: str,
    request_hash: str,
    timeout: timedelta,
    max_attempts: int,
    labels: Mapping[str, str],
    max_queue_age: timedelta,
    at: datetime,
) -> RunRecord:
    """An accepted run that nobody works on yet; where it is to be queued, it is not yet published."""
    queued = mode is RunMode.ASYNC
    return RunRecord(
        run_id=run_id,
        submission_id=submission_id,
        state=RunState.QUEUED,
        generation=1,
        mode=mode,
        app_id=app_id,
        user_id=user_id,
        engine=engine,
        job_id=names.job_id(run_id, 1),
        request_hash=request_hash,
        timeout_ms=timeout // timedelta(milliseconds=1),
        max_attempts=max_attempts,
        labels=dict(labels),
        created_at=at,
        queued_at=at,
        queue_deadline=at + (max_queue_age if queued else timeout + WAITED_GRACE),
        publish_after=at + PUBLISH_GRACE if queued else None,
        history=(HistoryEntry(state=RunState.QUEUED, at=at, generation=1),),
    )
