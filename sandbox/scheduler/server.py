"""Google Cloud Scheduler on this machine: declared HTTP jobs, run when due or by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from runtime.contract.errors import HoldfastError
from runtime.ports.clock import Clock
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts
from sandbox.scheduler.declared import Job, read_jobs
from sandbox.scheduler.faults import Effect, Fault, Faults
from sandbox.scheduler.state import JobState, JobTable, Run
from sandbox.scheduler.target import TargetFailed, Targets
from sandbox.world import World, short_name

LOOK_SECONDS: Final = 5.0
"""How often the declared world and the wall clock are looked at while nothing is due."""

log = structlog.get_logger()


class UnknownJob(HoldfastError):
    """A job that the program does not declare."""

    code = "unknown_job"


class Scheduler:
    """The jobs of the declared world. Runs that were missed while it did not run are not made up for.

    Args:
        world: what is declared.
        identity: makes the tokens; Google's own agent may do that for every account it is given.
        hosts: where targets are.
        clock: due times, deadlines, delays.
        faults: None means none; more can be ordered while the service runs.
    """

    def __init__(
        self, world: World, identity: IdentityService, hosts: Hosts, clock: Clock, faults: Faults | None = None
    ) -> None:
        self.faults = faults or Faults()
        self._world = world
        self._identity = identity
        self._clock = clock
        self._targets = Targets(hosts)
        self._table = JobTable()
        self._revision = -1
        self._reading = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to run jobs."""
        self._targets.open()
        await self.sync()
        self._running = asyncio.create_task(self._run(), name="scheduler")
        self._running.add_done_callback(_report)

    async def stop(self) -> None:
        """Ends every run; safe where `start` never ran."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await self._targets.close()

    async def sync(self) -> None:
        """Follows the declared world at once; otherwise that happens within a few seconds."""
        async with self._reading:
            revision = self._world.revision
            if self._revision != revision:
                # Time zones are files.
                declared = await asyncio.to_thread(read_jobs, self._world)
                self._table.follow(declared, self._clock.now())
                self._revision = revision

    async def jobs(self) -> dict[str, JobState]:
        """Name of each declared job -> when it is due and how it last ended."""
        await self.sync()
        return dict(self._table.jobs)

    async def run_now(self, name: str) -> Run:
        """Runs a job at once, paused or not, with its retries, and says how that ended.

        Args:
            name: short or full.

        Raises:
            UnknownJob
        """
        await self.sync()
        state = self._table.jobs.get(short_name(name))
        if state is None:
            raise UnknownJob(f"job {name} is not declared; declared are: {', '.join(sorted(self._table.jobs)) or '-'}")
        return await self._run_job(state, self._clock.now())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as runs:
            while True:
                await self.sync()
                to_run, left_out = self._table.take_due(self._clock.now())
                for state, due in left_out:
                    log.warning("job_run_left_out", job=state.job.name, due=due.isoformat(), running=state.running)
                for state, due in to_run:
                    state.running = True
                    runs.create_task(self._run_due(state, due), name=f"scheduler-{state.job.name}")
                due_next = self._table.next_due()
                left = LOOK_SECONDS if due_next is None else (due_next - self._clock.now()).total_seconds()
                await self._clock.sleep(min(LOOK_SECONDS, left))

    async def _run_due(self, state: JobState, due: datetime) -> None:
        try:
            await self._run_job(state, due)
        finally:
            state.running = False

    async def _run_job(self, state: JobState, due: datetime) -> Run:
        job, began, tries = state.job, self._clock.monotonic(), 0
        while True:
            tries += 1
            status, error = await self._try(job, due)
            if error is None or tries > job.retry.count:
                break
            delay = job.retry.delay(tries)
            longest = job.retry.longest.total_seconds()
            if longest and self._clock.monotonic() + delay - began > longest:
                break
            await self._clock.sleep(delay)
        state.last = Run(job=job.name, scheduled=due, tries=tries, status=status, error=error)
        report: Callable[..., object] = log.info if error is None else log.warning
        report("job_run", job=job.name, due=due.isoformat(), tries=tries, status=status, error=error)
        return state.last

    async def _try(self, job: Job, due: datetime) -> tuple[int | None, str | None]:
        """Status and error of one call; only one of 200 to 299 is no error."""
        fault = self.faults.next(job.name)
        try:
            async with self._clock.timeout(job.deadline.total_seconds()):
                status = await self._call(job, due, fault)
        except TimeoutError:
            return None, f"no answer within the attempt deadline, {job.deadline.total_seconds():g} s"
        except TargetFailed as error:
            return None, str(error)
        return status, None if 200 <= status < 300 else f"status {status}"

    async def _call(self, job: Job, due: datetime, fault: Fault | None) -> int:
        effect = fault.effect if fault is not None else None
        if fault is not None and effect is Effect.ERROR:
            return fault.status
        if fault is not None and effect is Effect.DELAY:
            await self._clock.sleep(fault.seconds)
        target = job.target
        token = self._identity.id_token(target.account, target.audience) if target.account is not None else None
        if effect is Effect.DUPLICATE:
            first, _ = await asyncio.gather(
                self._targets.call(job, due, token), self._targets.call(job, due, token), return_exceptions=True
            )
            if isinstance(first, BaseException):
                raise first
            return first
        status = await self._targets.call(job, due, token)
        if effect is Effect.DROP_RESPONSE:
            raise TargetFailed(f"{target.uri} answered {status}, and the answer was dropped as ordered")
        return status


def _report(task: asyncio.Task[None]) -> None:
    """Says why a task ended that never should."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("scheduler_failed", exc_info=error)
