"""Accepting a run: recorded with its payload in one commit, then published. What is recorded is never forgotten."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

import structlog

from runtime.api.dispatch import Dispatcher
from runtime.api.payloads import payload_document
from runtime.api.problem import Problem, unavailable
from runtime.api.run_record import RunRecord, new_record
from runtime.api.run_request import RunRequest
from runtime.api.run_store import Change, RunStore
from runtime.api.transitions import Holder, Note, mark_published, take_lease
from runtime.ports.clock import Clock
from runtime.ports.documents import StoreError, StoreUnavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run that is recorded.

    Attributes:
        record: as it now is.
        duplicate: True where an earlier request had recorded it.
    """

    record: RunRecord
    duplicate: bool


class Submissions:
    """Accepts runs.

    Args:
        runs: where they are recorded.
        dispatcher: publishes them.
        clock: for the time of acceptance.
        max_queue_age: how long a run may wait in all.
    """

    def __init__(self, runs: RunStore, dispatcher: Dispatcher, clock: Clock, max_queue_age: timedelta) -> None:
        self._runs = runs
        self._dispatcher = dispatcher
        self._clock = clock
        self._max_queue_age = max_queue_age

    async def submit(self, request: RunRequest, user_id: str) -> Submitted:
        """Records a run and tries to publish it.

        Raises:
            Problem: 409 `run_id_conflict` where the id belongs to another request; 503 `store_unavailable` where it
                is not known to be recorded: the same request with the `run_id` of the answer finds out.
        """
        done = await self._recorded(self._wanted(request, user_id), request)
        if done.duplicate:
            return done
        return Submitted(await self._published(done.record, request.payload), duplicate=False)

    async def begin(self, request: RunRequest, user_id: str, lease_token: str, lease: timedelta) -> Submitted:
        """Records a run together with the lease of whoever works on it now; it is never published.

        The lease is counted from the run's creation, until its first renewal judges it by the store's time.

        Raises:
            Problem: as `submit`.
        """
        wanted = self._wanted(request, user_id)
        holder = Holder(job_id=wanted.job_id, lease_token=lease_token)
        _, leased = take_lease(wanted, holder, lease, Note(), wanted.created_at)
        return await self._recorded(leased or wanted, request)

    def _wanted(self, request: RunRequest, user_id: str) -> RunRecord:
        return new_record(
            run_id=request.run_id or f"run-{uuid.uuid4().hex}",
            submission_id=uuid.uuid4().hex,
            mode=request.mode,
            app_id=request.app_id,
            user_id=user_id,
            engine=request.engine,
            request_hash=request.request_hash,
            timeout=request.timeout,
            max_attempts=request.max_attempts,
            labels=request.labels,
            max_queue_age=self._max_queue_age,
            at=self._clock.now(),
        )

    async def _recorded(self, wanted: RunRecord, request: RunRequest) -> Submitted:
        try:
            record, mine = await self._runs.create(wanted, [payload_document(wanted.run_id, request.payload)])
        except StoreUnavailable as error:
            log.warning("run_not_recorded", run_id=wanted.run_id, error=error.line())
            raise unavailable(
                "store_unavailable",
                f"run {wanted.run_id} may or may not be recorded; send the same request with this `run_id` to find out",
                {"run_id": wanted.run_id},
            ) from error
        if not mine and record.request_hash != request.request_hash:
            raise Problem(
                409,
                "run_id_conflict",
                f"run {record.run_id} was recorded at {record.created_at.isoformat()} from another request; "
                "take another `run_id`, or leave it out",
                members={"run_id": record.run_id},
            )
        return Submitted(record, duplicate=not mine)

    async def _published(self, record: RunRecord, payload: bytes) -> RunRecord:
        if not await self._dispatcher.publish(record, payload):
            return record
        return await mark(self._runs, record)


async def mark(runs: RunStore, published: RunRecord) -> RunRecord:
    """Records that a run is published. Where that fails the sweeper publishes once more, which is harmless."""
    try:
        record, _ = await runs.change(
            published.run_id,
            lambda record, now: Change(None, mark_published(record, published.job_id, now)),
        )
    except (StoreError, Problem) as error:
        log.warning("publication_not_marked", run_id=published.run_id, error=error.line())
        return published
    return record
