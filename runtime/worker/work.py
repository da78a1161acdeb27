"""P5: the work on a claimed message, under its ceilings, its deadline, its claim and the life of the process."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from msgspec import Struct

from runtime.contract.envelope import PushEnvelope
from runtime.contract.outcomes import outcome
from runtime.contract.states import FailureClass
from runtime.execution.signal import Signal
from runtime.ports.engine import EngineStillRunning
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import Guard
from runtime.worker.waiting import wait_first
from runtime.worker.workload import NO_FACTS, Ended, Job, JobFacts, UnusableMessage

STOP_SECONDS: Final = 5.0
"""Time for work to end by itself once it is told to stop: its engine, its last events, its lease."""
CANCEL_SECONDS: Final = 1.0
"""Time for work to end once it is cancelled."""

_End = Ended | EngineStillRunning | None

log = structlog.get_logger()


class Worked(Struct, frozen=True):
    """What settlement needs to know.

    Attributes:
        ended: how it ended.
        facts: for the dead letter.
        job: to give it up; None where the message is not known to be genuine.
        alive: True where the work could not be stopped: its claim must not be released.
    """

    ended: Ended
    facts: JobFacts = NO_FACTS
    job: Job | None = None
    alive: bool = False


async def work(deps: WorkerDeps, guard: Guard, message: PushEnvelope, *, deadline: float) -> Worked:
    """Works on a message, unless its attempts are used up or it cannot be read.

    The broker's own count of deliveries plays no part: it also counts those that never reached any work.
    """
    counted, ceiling = guard.record.counted, deps.settings.max_attempts
    job, facts, fault = await _read(deps, message)
    if counted <= ceiling and fault is not None:
        return Worked(fault, facts, job)
    ceiling = min(ceiling, facts.max_attempts or ceiling)
    if counted > ceiling:
        error = f"{counted - 1} attempts were begun, {ceiling} are allowed"
        return Worked(Ended("max_delivery_attempts_exceeded", error), facts, job)
    if job is None:
        return Worked(Ended(deps.workload.failed_code), facts)
    ended, alive = await _run(deps, guard, job, deadline)
    return Worked(ended, facts, job, alive)


async def _read(deps: WorkerDeps, message: PushEnvelope) -> tuple[Job | None, JobFacts, Ended | None]:
    try:
        job = await deps.workload.read(message)
    except UnusableMessage as error:
        return error.job, error.facts, Ended(error.code, str(error), FailureClass.MALFORMED_MESSAGE)
    except Exception as error:
        log.exception("message_reader_broken")
        return None, NO_FACTS, Ended(deps.workload.failed_code, type(error).__name__)
    return job, job.facts, None


async def _run(deps: WorkerDeps, guard: Guard, job: Job, deadline: float) -> tuple[Ended, bool]:
    clock, draining = deps.clock, deps.lifecycle.draining
    stop = asyncio.Event()
    running = asyncio.create_task(_contained(job, deadline, stop, deps.workload.failed_code), name="work on a message")
    deps.lifecycle.track(running)
    try:
        await wait_first(clock, deadline - clock.monotonic(), guard.lost, draining, task=running)
        reason = _interruption(guard, draining, running)
        if reason is not None:
            log.warning("work_interrupted", reason=reason)
            stop.set()
            await wait_first(clock, STOP_SECONDS, task=running)
    finally:
        try:
            if not running.done():
                running.cancel()
                await wait_first(clock, CANCEL_SECONDS, task=running)
        finally:
            ended = await _end_of(running, guard)
    if isinstance(ended, Ended):
        return ended, False
    return Ended(reason or deps.workload.failed_code), ended is not None


async def _end_of(running: asyncio.Task[_End], guard: Guard) -> _End:
    """How the work ended; of what may go on, the claim is left to its age."""
    if running.cancelled():
        return None
    ended = running.result() if running.done() else EngineStillRunning("it ignores its cancellation")
    if isinstance(ended, EngineStillRunning):
        log.error("work_did_not_stop", error=str(ended))
        await guard.abandon()
    return ended


def _interruption(guard: Guard, draining: Signal, running: asyncio.Task[_End]) -> str | None:
    if running.done():
        return None
    if guard.lost.is_set():
        return "claim_lost"
    return "worker_shutdown" if draining.is_set() else "processing_timeout"


async def _contained(job: Job, deadline: float, stop: asyncio.Event, failed_code: str) -> _End:
    """The work's end, whatever the work raises: no exception of it may decide an acknowledgement."""
    try:
        ended = await job.run(deadline=deadline, stop=stop)
        if ended is not None:
            outcome(ended.code)
    except asyncio.CancelledError:
        return None
    except EngineStillRunning as error:
        return error
    except (Exception, SystemExit) as error:
        log.exception("work_raised")
        return Ended(failed_code, type(error).__name__)
    return ended
