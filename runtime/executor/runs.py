"""The runs of this process: none twice, each ended by a drain, the streams of the latest kept for their readers."""

from __future__ import annotations

import asyncio
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
"""Most ended streams that are kept; with `ChannelRules.kept_bytes` about 32 MiB, since nothing else of a run is."""
HOLD: Final = timedelta(seconds=60)
"""How long an ended stream is kept for a reader that returns."""


class HeldStream(Struct):
    """What a reader needs of a run, while it works and for a while after.

    Attributes:
        channel: with the events.
        over: done once the run has ended.
    """

    channel: Channel
    over: asyncio.Future[None]


class WorkingRun(Struct):
    """A run that has not ended.

    Attributes:
        run: to be stopped.
        task: works it.
        over: done once it has ended.
        channel: None where its caller waits for the result alone.
    """

    run: ExecutorRun
    task: asyncio.Task[Ending]
    over: asyncio.Future[None]
    channel: Channel | None


class Runs:
    """Starts runs and holds them.

    Args:
        deps: of the executor.
    """

    def __init__(self, deps: ExecutorDeps) -> None:
        self._deps = deps
        self._working: dict[str, WorkingRun] = {}
        self._ended: dict[str, tuple[float, HeldStream]] = {}  # the oldest first
        settings = deps.settings
        self._rules = ReportRules(batch=BatchRules(interval=settings.batch_interval, size=settings.batch_size))

    @property
    def working(self) -> int:
        """Runs that have not ended."""
        return len(self._working)

    @property
    def kept(self) -> int:
        """Ended streams that a reader may still come back to."""
        return len(self._ended)

    def start(self, accepted: Accepted, channel: Channel | None) -> WorkingRun:
        """Begins a run, which goes on whatever becomes of its caller.

        Raises:
            Problem: 409 where this process has the job already, 503 where it has too many.
        """
        self._forget()
        job = accepted.job
        if job.job_id in self._working or job.job_id in self._ended:
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
        task = asyncio.create_task(run.execute(), name="run")
        working = WorkingRun(run, task, asyncio.get_running_loop().create_future(), channel)
        self._working[job.job_id] = working
        self._deps.metrics.executing.inc()
        self._deps.lifecycle.track(task)
        job_id = job.job_id
        task.add_done_callback(lambda _task: self._end(job_id))
        return working

    def held(self, job_id: str) -> HeldStream | None:
        """The stream of a job, while it works and for a while after; None where it has none."""
        self._forget()
        working = self._working.get(job_id)
        if working is not None and working.channel is not None:
            return HeldStream(working.channel, working.over)
        return self._ended[job_id][1] if job_id in self._ended else None

    async def drain(self) -> None:
        """Waits for the process to drain, and ends what still works after the grace."""
        await self._deps.lifecycle.draining.wait()
        await self._deps.clock.sleep(self._deps.drain_grace.total_seconds())
        for working in self._working.values():
            working.run.stop(Stop.DRAINING)

    async def close(self) -> None:
        """Leaves nothing running."""
        await end(*(working.task for working in self._working.values()))
        self._ended.clear()

    def _end(self, job_id: str) -> None:
        """Keeps no more of a run than its stream: the job, its input and its result may be large."""
        ended = self._working.pop(job_id)
        ended.over.set_result(None)
        self._deps.metrics.executing.dec()
        if ended.channel is not None:
            self._ended[job_id] = (self._deps.clock.monotonic(), HeldStream(ended.channel, ended.over))
            self._forget()

    def _forget(self) -> None:
        """Lets go of streams that ended long ago, and of the oldest where too many are kept."""
        ended, latest = self._ended, self._deps.clock.monotonic() - HOLD.total_seconds()
        while ended:
            job_id, (ended_at, _) = next(iter(ended.items()))
            if len(ended) <= HELD_ENDED and ended_at > latest:
                return
            del ended[job_id]
