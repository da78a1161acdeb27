"""The runs of this process: none twice, each ended by a drain, the streams of the latest kept for their readers."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from typing import Final

from msgspec import Struct

from runtime.execution.batcher import BatchRules
from runtime.execution.tasks import end
from runtime.executor.channel import Channel
from runtime.executor.deps import ExecutorDeps
from runtime.executor.ending import Ending, Stop
from runtime.executor.intake import Accepted
from runtime.executor.reporter import ReportRules
from runtime.executor.run import Execution, ExecutorRun
from runtime.http.problem import Problem, unavailable

RUNS: Final = 1000
"""Most runs at a time: the platform's own limit of requests for one instance."""
HELD_ENDED: Final = 128
"""Most ended streams that are kept; with `ChannelRules.kept_bytes` about 32 MiB."""
HOLD: Final = timedelta(seconds=60)
"""How long an ended stream is kept for a reader that returns."""


class HeldRun(Struct):
    """A run that works, or has ended a short while ago.

    Attributes:
        run: to be stopped.
        channel: None where its caller waits for the result alone.
        task: works it.
    """

    run: ExecutorRun
    channel: Channel | None
    task: asyncio.Task[Ending]


class Runs:
    """Starts runs and holds them.

    Args:
        deps: of the executor.

    Attributes:
        working: runs that have not ended.
    """

    def __init__(self, deps: ExecutorDeps) -> None:
        self._deps = deps
        self._held: dict[str, HeldRun] = {}
        self._ended_streams: deque[tuple[float, str]] = deque()
        self.working = 0
        settings = deps.settings
        self._rules = ReportRules(batch=BatchRules(interval=settings.batch_interval, size=settings.batch_size))

    def start(self, accepted: Accepted, channel: Channel | None) -> HeldRun:
        """Begins a run, which goes on whatever becomes of its caller.

        Raises:
            Problem: 409 where this process has the job already, 503 where it has too many.
        """
        self._forget()
        job = accepted.job
        if job.job_id in self._held:
            raise Problem(
                409, "run_already_held", f"job {job.job_id!r} was started here; resume its stream with Last-Event-ID"
            )
        if self.working >= RUNS:
            raise unavailable("too_many_runs", f"this instance works on {RUNS} runs already")
        run = ExecutorRun(
            Execution(
                job=job,
                lease_token=accepted.lease_token,
                latest=accepted.latest,
                engine=self._deps.engine(job.engine),
                callbacks=self._deps.connect(job),
                rules=self._rules,
                clock=self._deps.clock,
                metrics=self._deps.metrics,
                tracing=self._deps.tracing,
                channel=channel,
            )
        )
        held = HeldRun(run, channel, asyncio.create_task(run.execute(), name="run"))
        self._held[job.job_id] = held
        self.working += 1
        self._deps.metrics.executing.inc()
        self._deps.lifecycle.track(held.task)
        held.task.add_done_callback(lambda _task: self._ended(job.job_id, held))
        return held

    def held(self, job_id: str) -> HeldRun | None:
        """The run of a job, while it works and for a while after."""
        self._forget()
        return self._held.get(job_id)

    async def drain(self) -> None:
        """Waits for the process to drain, and ends what still works after the grace."""
        await self._deps.lifecycle.draining.wait()
        await self._deps.clock.sleep(self._deps.drain_grace.total_seconds())
        for held in self._held.values():
            held.run.stop(Stop.DRAINING)

    async def close(self) -> None:
        """Leaves nothing running."""
        await end(*(held.task for held in self._held.values()))
        self._held.clear()

    def _ended(self, job_id: str, held: HeldRun) -> None:
        self._deps.metrics.executing.dec()
        self.working -= 1
        if held.channel is None:
            self._held.pop(job_id, None)
        else:
            self._ended_streams.append((self._deps.clock.monotonic(), job_id))

    def _forget(self) -> None:
        """Lets go of streams that ended long ago, and of the oldest where too many are kept."""
        ended, latest = self._ended_streams, self._deps.clock.monotonic() - HOLD.total_seconds()
        while ended and (len(ended) > HELD_ENDED or ended[0][0] <= latest):
            _, job_id = ended.popleft()
            self._held.pop(job_id, None)
