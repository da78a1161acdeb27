"""Runs whose callers wait for the result: one caller hands the run over, all of them wait for its record to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from runtime.api.executions import Executions, Running
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem, unavailable
from runtime.api.run_record import RunRecord
from runtime.api.run_request import RunRequest
from runtime.api.run_store import RunStore
from runtime.api.watch import POLL_SECONDS, RunWatch
from runtime.execution.tasks import end, first_done
from runtime.http.presence import LOOK_SECONDS, caller_left
from runtime.ports.clock import Clock
from runtime.ports.documents import StoreUnavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    Attributes:
        record: as it has ended.
        result: its JSON; None where it has none.
        duplicate: whether an earlier request had created the run.
    """

    record: RunRecord
    result: bytes | None = field(repr=False)
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a caller waits.

    Attributes:
        ends_at: monotonic time.
        gone: whether the caller left; nobody is waited for who did.
    """

    ends_at: float
    gone: Callable[[], bool]


class SyncRuns:
    """Waits for results.

    Args:
        executions: hands runs over.
        runs: where they are recorded.
        payloads: reads results.
        watch: wakes the callers that only wait.
        clock: for the bounds.
    """

    def __init__(
        self, executions: Executions, runs: RunStore, payloads: Payloads, watch: RunWatch, clock: Clock
    ) -> None:
        self._executions = executions
        self._runs = runs
        self._payloads = payloads
        self._watch = watch
        self._clock = clock

    async def ended(self, request: RunRequest, user_id: str, arrived: float, gone: Callable[[], bool]) -> Ended:
        """A run that has ended. A repeated request waits like the first one, and finds what the first one found.

        A store that does not answer is asked again while the wait lasts.

        Args:
            request: the run.
            user_id: the caller.
            arrived: monotonic time from which its wait counts.
            gone: whether the caller left.

        Raises:
            Problem: see `Submissions.submit`; with the id of a run that goes on, or has ended, 504 `wait_ended`, 503
                `draining` and 503 `store_unavailable`; 503 `too_many_waits`; 499 `caller_left`.
        """
        wait = Wait(arrived + request.wait.total_seconds(), gone)
        begun = await self._executions.begin(request, user_id, None)
        if begun.running is not None:
            await self._follow(begun.running, wait)
            record, result = await self._read(
                begun.record, wait, lambda left: self._clock.sleep(min(left, POLL_SECONDS))
            )
        else:
            with self._watch.watching(begun.record.run_id) as signal:
                record, result = await self._read(begun.record, wait, lambda left: self._watch.pause(signal, left))
        return Ended(record, result, duplicate=begun.running is None)

    async def _follow(self, running: Running, wait: Wait) -> None:
        """Returns at the end of the execution, of the wait or of the process, or where the caller left."""
        leaving = asyncio.create_task(self._executions.leaving.wait())
        try:
            while (left := wait.ends_at - self._clock.monotonic()) > 0 and not wait.gone():
                if await first_done(self._clock, min(left, LOOK_SECONDS), running.task, leaving):
                    return
        finally:
            await end(leaving)

    async def _read(
        self, record: RunRecord, wait: Wait, pause: Callable[[float], Awaitable[None]]
    ) -> tuple[RunRecord, bytes | None]:
        while True:
            is_known = True
            try:
                if not record.ended:
                    record = (await self._runs.get(record.run_id)).record
                if record.ended:
                    return record, await self._payloads.result(record.run_id) if record.has_result else None
            except StoreUnavailable as error:
                log.warning("run_not_read", run_id=record.run_id, error=error.line())
                is_known = False
            left = wait.ends_at - self._clock.monotonic()
            if wait.gone():
                raise caller_left()
            if left <= 0 or self._executions.leaving.is_set():
                raise self._not_known(record, is_known=is_known)
            await pause(left)

    def _not_known(self, record: RunRecord, *, is_known: bool) -> Problem:
        """What a caller is told instead of the end; it can find its run whatever happened."""
        place = f"/v1/runs/{record.run_id}"
        members = {"run_id": record.run_id, "state": record.state.value}
        way_out = f"send the same request with `run_id` {record.run_id} to wait again, or ask for {place}"
        if self._executions.leaving.is_set():
            problem = unavailable("draining", f"this instance is going away, and the run goes on; {way_out}", members)
        elif is_known:
            text = f"the wait has ended before the run, which goes on; {way_out}"
            problem = Problem(504, "wait_ended", text, members=members)
        else:
            text = f"the store of runs did not answer in time, the run goes on or has ended; {way_out}"
            problem = unavailable("store_unavailable", text, members)
        problem.headers["Location"] = place
        return problem
