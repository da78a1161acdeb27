"""The executions of this process: begun with a run's record, gone on without its caller, let go of by a drain."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from runtime.api.execution import Execution, Handover, Reader
from runtime.api.executor_client import ANSWER_SECONDS, ExecutorClient
from runtime.api.job import JobMaker
from runtime.api.json_value import encode
from runtime.api.run_end import RunEnd
from runtime.api.run_record import WAITED_GRACE, RunRecord
from runtime.api.run_request import RunRequest
from runtime.api.submission import Submissions
from runtime.api.watch import RunWatch
from runtime.execution.tasks import end
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.server import Lifecycle

DRAIN_SECONDS: Final = 4.0
"""How long callers still wait, and executions are followed, once the process drains; executors go on by themselves."""
TOKEN_GRACE: Final = timedelta(seconds=ANSWER_SECONDS) + 5 * WAITED_GRACE
"""Life of a job's token beyond the run's timeout: for finding an executor, and for the last reports."""
LEASE_TOKEN: Final = "lease_token"
"""Member of a job in which the API hands its own lease over."""


log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """An execution, and the task that follows it."""

    execution: Execution
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is recorded.

    Attributes:
        record: as it was created.
        running: None where an earlier request had created it.
    """

    record: RunRecord
    running: Running | None


class Executions:
    """Begins runs whose callers wait, and follows them.

    Args:
        submissions: records runs.
        jobs: signs them.
        client: the executor.
        run_end: ends records.
        watch: told of every execution's end.
        lease: of a run, until the executor's first renewal.
        clock: time.
        lifecycle: of the process.
        metrics: counts.
    """

    def __init__(
        self,
        submissions: Submissions,
        jobs: JobMaker,
        client: ExecutorClient,
        run_end: RunEnd,
        watch: RunWatch,
        *,
        lease: timedelta,
        clock: Clock,
        lifecycle: Lifecycle,
        metrics: Metrics,
    ) -> None:
        self._submissions = submissions
        self._jobs = jobs
        self._client = client
        self._run_end = run_end
        self._watch = watch
        self._lease = lease
        self._clock = clock
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._running: set[Running] = set()
        self.leaving = asyncio.Event()

    async def begin(self, request: RunRequest, user_id: str, reader: Reader | None) -> Begun:
        """Records a run and hands it to the executor; of a repeated request neither.

        Raises:
            Problem: see `Submissions.submit`.
        """
        token = secrets.token_hex(16)
        done = await self._submissions.begin(request, user_id, token, self._lease)
        if done.duplicate:
            return Begun(done.record, None)
        handover = Handover(record=done.record, payload=request.payload, lease_token=token, reader=reader)
        return Begun(done.record, self._start(handover))

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Lets go of every execution some time after the process begins to drain, and leaves nothing running."""
        draining = asyncio.create_task(self._drain(), name="let go of executions on drain")
        try:
            yield
        finally:
            await end(draining, *(running.task for running in self._running))

    def _start(self, handover: Handover) -> Running:
        record = handover.record
        execution = Execution(
            handover, lambda: self._job(handover), self._client, self._run_end, self._clock, self._metrics
        )
        if self.leaving.is_set():
            execution.leave()
        running = Running(execution, asyncio.create_task(execution.execute(), name="follow an execution"))
        self._running.add(running)
        self._lifecycle.track(running.task)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(running)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("execution_failed", run_id=record.run_id, exc_info=error)
            self._watch.notify(record.run_id)

        running.task.add_done_callback(ended)
        return running

    def _job(self, handover: Handover) -> bytes:
        record = handover.record
        life = record.timeout + TOKEN_GRACE
        more = {LEASE_TOKEN: handover.lease_token}
        return encode(self._jobs.signed(record, handover.payload, life=life, now=self._clock.now(), more=more))

    async def _drain(self) -> None:
        await self._lifecycle.draining.wait()
        await self._clock.sleep(DRAIN_SECONDS)
        self.leaving.set()
        for running in self._running:
            running.execution.leave()
