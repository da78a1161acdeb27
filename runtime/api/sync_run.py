"""Runs whose callers wait for the result: one caller hands the run over, all of them wait for its record to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runtime.api.executions import Executions, Running
from runtime.api.problem import Problem, unavailable
from runtime.api.run_record import RunRecord
from runtime.api.run_request import RunRequest
from runtime.api.run_store import RunStore
from runtime.api.submission import Submitted
from runtime.api.watch import POLL_SECONDS, RunWatch
from runtime.execution.tasks import end, first_done
from runtime.ports.clock import Clock


class SyncRuns:
    """Waits for results.

    Args:
        executions: hands runs over.
        runs: where they are recorded.
        watch: wakes the callers that only wait.
        clock: for the bounds.
    """

    def __init__(self, executions: Executions, runs: RunStore, watch: RunWatch, clock: Clock) -> None:
        self._executions = executions
        self._runs = runs
        self._watch = watch
        self._clock = clock

    async def ended(self, request: RunRequest, user_id: str, arrived: float) -> Submitted:
        """A run that has ended. A repeated request waits like the first one, and finds what the first one found.

        Args:
            request: the run.
            user_id: the caller.
            arrived: monotonic time from which its wait counts.

        Raises:
            Problem: see `Submissions.submit`; 504 `wait_ended` and 503 `draining` with the id of a run that goes on,
                503 `too_many_waits`.
        """
        ends_at = arrived + request.wait.total_seconds()
        begun = await self._executions.begin(request, user_id, None)
        run_id = begun.record.run_id
        if begun.running is not None:
            record = await self._followed(run_id, begun.running, ends_at)
        elif begun.record.ended:
            record = begun.record
        else:
            with self._watch.watching(run_id) as signal:
                record = await self._until_ended(run_id, ends_at, lambda left: self._watch.pause(signal, left))
        if not record.ended:
            raise self._goes_on(record)
        return Submitted(record, duplicate=begun.running is None)

    async def _followed(self, run_id: str, running: Running, ends_at: float) -> RunRecord:
        leaving = asyncio.create_task(self._executions.leaving.wait())
        try:
            await first_done(self._clock, ends_at - self._clock.monotonic(), running.task, leaving)
        finally:
            await end(leaving)
        return await self._until_ended(run_id, ends_at, lambda left: self._clock.sleep(min(left, POLL_SECONDS)))

    async def _until_ended(self, run_id: str, ends_at: float, pause: Callable[[float], Awaitable[None]]) -> RunRecord:
        while True:
            record = (await self._runs.get(run_id)).record
            left = ends_at - self._clock.monotonic()
            if record.ended or left <= 0 or self._executions.leaving.is_set():
                return record
            await pause(left)

    def _goes_on(self, record: RunRecord) -> Problem:
        place = f"/v1/runs/{record.run_id}"
        members = {"run_id": record.run_id, "state": record.state.value}
        way_out = f"send the same request with `run_id` {record.run_id} to wait again, or ask for {place}"
        if self._executions.leaving.is_set():
            return unavailable("draining", f"this instance is going away, and the run goes on; {way_out}", members)
        return Problem(
            504,
            "wait_ended",
            f"the wait has ended before the run, which goes on; {way_out}",
            members=members,
            headers={"Location": place},
        )
