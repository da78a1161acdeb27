"""What workers' calls do to a run: leases, events, endings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from runtime.api.event_log import batch_document
from runtime.api.payloads import result_document
from runtime.api.problem import Problem
from runtime.api.report import EventReport, ProgressReport
from runtime.api.run_record import RunRecord
from runtime.api.run_store import Beside, Change, RunStore
from runtime.api.transitions import Ending, Ruling, finish, record_events, take_lease

log = structlog.get_logger()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A ruling, and the store time it was made at."""

    ruling: Ruling
    now: datetime


class Callbacks:
    """Applies workers' reports.

    Args:
        runs: where the runs are.
        run_lease: longest lease, and the default.
    """

    def __init__(self, runs: RunStore, run_lease: timedelta) -> None:
        self._runs = runs
        self._run_lease = run_lease

    async def progress(self, run_id: str, report: ProgressReport) -> dict[str, object]:
        """Takes or renews a lease, or ends the run; the answer of the progress callback.

        Raises:
            Problem: 404 `run_not_found`.
            StoreUnavailable: the same call again is safe.
        """
        if report.ending is None:
            return await self._lease(run_id, report)
        return await self._finish(run_id, report, report.ending)

    async def events(self, run_id: str, report: EventReport) -> dict[str, object]:
        """Records events; the answer of the events callback.

        Raises:
            Problem: 404 `run_not_found`; 409 `lease_not_current`, `sequence_gap`.
            StoreUnavailable: the same call again is safe.
        """

        def step(record: RunRecord, _now: datetime) -> Change[Ruling]:
            first, count = report.events[0].sequence, len(report.events)
            ruling, after = record_events(record, report.holder, first, count)
            if ruling is Ruling.RECORDED and report.gap:
                return Change(Ruling.GAP)
            if after is None:
                return Change(ruling)
            new = [event for event in report.events if event.sequence >= record.next_sequence]
            return Change(ruling, after, [batch_document(record, new)])

        record, ruling = await self._runs.change(run_id, step)
        expected: dict[str, object] = {"next_sequence": record.next_sequence}
        if ruling is Ruling.GAP:
            raise Problem(
                409,
                "sequence_gap",
                f"the next event of run {run_id} has sequence {record.next_sequence}, the batch begins at "
                f"{report.events[0].sequence} or leaves some out",
                members=expected,
            )
        if ruling is Ruling.NOT_CURRENT:
            raise Problem(
                409,
                "lease_not_current",
                f"the lease is not the one that run {run_id} ({record.state}) is worked under",
                members={**expected, "state": record.state.value},
            )
        return {"accepted": True, **expected}

    async def _lease(self, run_id: str, report: ProgressReport) -> dict[str, object]:
        wanted = self._run_lease if report.lease_duration is None else report.lease_duration
        duration = min(wanted, self._run_lease)

        def step(record: RunRecord, now: datetime) -> Change[_Seen]:
            ruling, after = take_lease(record, report.holder, duration, report.note, now)
            return Change(_Seen(ruling, now), after)

        record, seen = await self._runs.change(run_id, step)
        acquired = seen.ruling is Ruling.RECORDED
        answer = _answer(record, accepted=acquired)
        answer["lease_acquired"] = acquired
        if record.lease_expires_at is not None and seen.ruling is not Ruling.ENDED:
            answer["lease_ms_left"] = max(0, math.ceil((record.lease_expires_at - seen.now) / _MS))
            answer["lease_expires_at"] = math.ceil((record.lease_expires_at - _EPOCH) / _MS)
        return answer

    async def _finish(self, run_id: str, report: ProgressReport, ending: Ending) -> dict[str, object]:
        def step(record: RunRecord, now: datetime) -> Change[Ruling]:
            ruling, after = finish(record, report.holder, ending, now)
            beside: Sequence[Beside] = ()
            if after is not None and report.result is not None:
                beside = [result_document(run_id, report.result)]
            return Change(ruling, after, beside)

        record, ruling = await self._runs.change(run_id, step)
        recorded = ruling in {Ruling.RECORDED, Ruling.REPEATED}
        if recorded and report.refused_result:
            log.warning("result_refused", run_id=run_id, error=ending.error)
        # Where the result could not be kept the run has ended otherwise than its worker said: not accepted as sent.
        return _answer(record, accepted=recorded and not report.refused_result)


def _answer(record: RunRecord, *, accepted: bool) -> dict[str, object]:
    return {
        "accepted": accepted,
        "status": record.state.value,
        "attempt": record.attempt,
        "next_sequence": record.next_sequence,
        "cancel_requested": record.cancel_requested,
    }
