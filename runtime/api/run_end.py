"""Ending the record of a run that the executor works: as it said, or as its silence says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from runtime.api import run_view
from runtime.api.callbacks import Callbacks
from runtime.api.executor_errors import ExecutorBroken, ExecutorError, ExecutorUnavailable
from runtime.api.executor_messages import COMPLETED, Message, as_message
from runtime.api.json_value import encode
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem
from runtime.api.report import ProgressReport, read_progress
from runtime.api.run_record import RunRecord
from runtime.api.run_store import RunStore
from runtime.contract.states import STATE_OF_PROGRESS, FailureClass, ProgressStatus
from runtime.ports.clock import Clock
from runtime.ports.documents import StoreUnavailable

RECORD_SECONDS: Final = 60.0
"""How long an end is tried to be recorded; then the sweeper is left with it."""
PAUSE_SECONDS: Final = 2.0

_STATUS_OF: Final = {state.value: status.value for status, state in STATE_OF_PROGRESS.items()}

log = structlog.get_logger()


class RunEnd:
    """Ends records by compare-and-set: whoever was first stays.

    Args:
        callbacks: rules on ends as on those of workers.
        runs: where the runs are.
        payloads: reads results.
        clock: for the bound.
    """

    def __init__(self, callbacks: Callbacks, runs: RunStore, payloads: Payloads, clock: Clock) -> None:
        self._callbacks = callbacks
        self._runs = runs
        self._payloads = payloads
        self._clock = clock

    def as_told(self, job_id: str, lease_token: str, told: Mapping[str, object] | None) -> ProgressReport:
        """The end that an executor told its caller and not the record.

        Args:
            job_id, lease_token: under which it worked.
            told: payload of its `completed`; None where it could not be read.
        """
        members = ("error", "failure_class", "status_code", "result")
        said = {} if told is None else told
        status = _STATUS_OF.get(str(said.get("state")))
        if status is not None:
            body = {name: said[name] for name in members if said.get(name) is not None}
            try:
                return _report(job_id, lease_token, status=status, **body)
            except Problem as problem:
                log.warning("executor_end_unreadable", job_id=job_id, error=problem.line())
        return self.as_failed(job_id, lease_token, ExecutorBroken("the executor's last event cannot be read"))

    def as_failed(self, job_id: str, lease_token: str, error: ExecutorError) -> ProgressReport:
        """The end of a run that the executor did not bring to its end."""
        return _report(
            job_id,
            lease_token,
            status=ProgressStatus.FAILED.value,
            error=error.line(),
            failure_class=FailureClass.DISPATCH_ERROR.value,
            status_code=503 if isinstance(error, ExecutorUnavailable) else 502,
        )

    async def record(self, run_id: str, report: ProgressReport) -> tuple[RunRecord, bytes | None] | None:
        """Records an end; the run as it has ended then, this way or another, with its result. None where it has not."""
        latest = self._clock.monotonic() + RECORD_SECONDS
        while True:
            try:
                await self._callbacks.progress(run_id, report)
                record = (await self._runs.get(run_id)).record
                result = await self._payloads.result(run_id) if record.has_result else None
            except Problem:
                return None  # the record is gone
            except StoreUnavailable as error:
                log.warning("end_not_recorded", run_id=run_id, error=error.line())
                if self._clock.monotonic() + PAUSE_SECONDS > latest:
                    return None
                await self._clock.sleep(PAUSE_SECONDS)
            else:
                return (record, result) if record.ended else None


def completed_message(record: RunRecord, result: bytes | None) -> Message:
    """The last event of a run that has ended, from its record; its members are the executor's."""
    timestamp = run_view.timestamp(record.completed_at or record.created_at)
    return as_message(f"end-{record.job_id}", COMPLETED, encode(run_view.ended(record, result)), timestamp)


def _report(job_id: str, lease_token: str, **body: object) -> ProgressReport:
    return read_progress(encode({"job_id": job_id, "lease_token": lease_token, **body}))
