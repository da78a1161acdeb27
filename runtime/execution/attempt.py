"""One attempt at a run: lease, engine, events, end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog
from msgspec import Struct, field

from runtime.contract.errors import HoldfastError
from runtime.contract.limits import SETTLE_BUDGET
from runtime.contract.states import STATE_OF_PROGRESS, TERMINAL, FailureClass, ProgressStatus
from runtime.execution.answer import cancelled, failed, kept_result, timed_out
from runtime.execution.batcher import BatchRules, EventBatcher, EventSource
from runtime.execution.callback_messages import (
    CallbackError,
    CallbackRefused,
    Callbacks,
    CallbackUnavailable,
    ProgressAnswer,
    ProgressRequest,
)
from runtime.execution.event import LAST_EVENT, progress_note
from runtime.execution.job import Job
from runtime.execution.lease import Parking, RunLease, Taking
from runtime.execution.meters import Meters
from runtime.execution.outcome import AttemptEnd, AttemptKind, undelivered
from runtime.execution.tasks import end, first_done
from runtime.execution.values import one_line
from runtime.ports.clock import Clock
from runtime.ports.engine import Engine, EngineStillRunning, RunContext, RunResult

ENGINE_GRACE_SECONDS: Final = 8.0
"""How long after its deadline an engine may still be busy with ending; then it is cut off."""
STOP_ENGINE_SECONDS: Final = 3.0
"""Longest that an engine may take to stop where nobody waits for its result; a drain has ten seconds for everything."""
STOP_REPORT_SECONDS: Final = 2.0
"""Longest for its last events then, and as long again to give the lease back."""

log = structlog.get_logger()


class AttemptTools(Struct, frozen=True, kw_only=True):
    """What every attempt of a process shares.

    Attributes:
        clock: time.
        connect: the API's side of a job.
        engine: the engine of a name; None where there is none.
        lease: how long a lease is asked for.
        park: longest wait for a lease that is busy.
        settle: time kept free of the engine at the end of a delivery.
        batch: when events go out.
        meters: counts; None counts nothing.
    """

    clock: Clock
    connect: Callable[[Job], Callbacks]
    engine: Callable[[str], Engine | None]
    lease: timedelta
    park: timedelta
    settle: timedelta = timedelta(seconds=SETTLE_BUDGET)
    batch: BatchRules = field(default_factory=BatchRules)
    meters: Meters | None = None


async def run_attempt(job: Job, tools: AttemptTools, *, deadline: float, stop: asyncio.Event) -> AttemptEnd:
    """Runs a job once and reports how it ended. Nothing is left running on any way out, cancellation included.

    Args:
        job: verified.
        tools: of the process.
        deadline: monotonic end of the delivery: parking, engine and reports share it.
        stop: set when the process drains: the engine is stopped and the run left to another attempt.

    Raises:
        EngineStillRunning: something is left running after all. The run is not ended and its lease not given back.
    """
    began = tools.clock.monotonic()
    latest = deadline - tools.settle.total_seconds()
    if began >= latest:
        return AttemptEnd(kind=AttemptKind.NOT_ENOUGH_TIME, detail="no time is left for an engine")
    callbacks = tools.connect(job)
    lease = RunLease(callbacks, job.job_id, tools.clock, tools.lease)
    parking = Parking(
        until=min(began + tools.park.total_seconds(), latest), latest_start=latest - job.timeout.total_seconds()
    )
    try:
        take = await lease.take(parking, stop)
    except CallbackUnavailable as error:
        return AttemptEnd(
            kind=AttemptKind.API_UNAVAILABLE, failure_class=FailureClass.DISPATCH_ERROR, detail=error.line()
        )
    except CallbackError as error:
        return undelivered(error, None)
    if take.how is not Taking.TAKEN:
        return AttemptEnd(kind=_NOT_TAKEN[take.how], state=take.state, detail=f"the lease is {take.how.value}")
    attempt = _Attempt(job, tools, callbacks, lease, latest=latest, deadline=deadline, stop=stop)
    return await attempt.run()


_NOT_TAKEN: Final = {
    Taking.BUSY: AttemptKind.LEASE_BUSY,
    Taking.ENDED: AttemptKind.ALREADY_TERMINAL,
    Taking.STOPPED: AttemptKind.STOPPED,
}


class _Attempt:
    """The part of an attempt that has the lease.

    Args:
        job, tools, callbacks, lease: of the attempt.
        latest: monotonic time by which the engine must have ended.
        deadline: monotonic end of everything.
        stop: set when the process drains.
    """

    def __init__(
        self,
        job: Job,
        tools: AttemptTools,
        callbacks: Callbacks,
        lease: RunLease,
        *,
        latest: float,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._job = job
        self._clock = tools.clock
        self._engine = tools.engine(job.engine)
        self._callbacks = callbacks
        self._lease = lease
        self._latest = latest
        self._deadline = deadline
        self._stop = stop
        self._batcher = EventBatcher(
            callbacks,
            EventSource(
                run_id=job.run_id,
                job_id=job.job_id,
                lease_token=lease.token,
                attempt=lease.attempt,
                next_sequence=lease.next_sequence,
            ),
            tools.clock,
            until=lambda: min(lease.usable_until(), deadline),
            rules=tools.batch,
            meters=tools.meters,
        )

    async def run(self) -> AttemptEnd:
        """Works, and reports."""
        keeper = asyncio.create_task(self._lease.keep())
        heeding = asyncio.create_task(self._lease.heed())
        feeder = self._batcher.start()
        try:
            result = await self._work(keeper, feeder)
            if isinstance(result, RunResult):
                return await self._finish(result)
            await end(keeper)
            return await self._give_up(result)
        finally:
            await end(keeper, feeder, heeding)

    async def _work(self, keeper: asyncio.Task[HoldfastError], feeder: asyncio.Task[None]) -> RunResult | AttemptEnd:
        if self._engine is None:
            error = f"this deployment has no engine {self._job.engine!r}"
            return failed(error, status_code=503, failure_class=FailureClass.NO_WORKER_TEMPLATE)
        await self._batcher.emit("log", {"level": "info", "message": "Execution started"})
        if self._lease.cancel_requested:
            return cancelled()
        context = self._context()
        work = asyncio.create_task(self._engine.run(context))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await first_done(self._clock, context.seconds_left + ENGINE_GRACE_SECONDS, work, keeper, feeder, stopping)
            if work.done():
                return self._outcome(work)
            self._lease.cancelled.set()
            await first_done(self._clock, STOP_ENGINE_SECONDS, work)
            ended = self._interruption(keeper, feeder, stopping)
            if ended is None:
                return timed_out()
            if ended.kind is AttemptKind.STOPPED and work.done():
                result = self._outcome(work)
                if isinstance(result, RunResult) and result.status is ProgressStatus.COMPLETED:
                    return result  # it came just in time; doing it all again would be the worse end
            return ended
        finally:
            await _end_engine(work, stopping)

    def _context(self) -> RunContext:
        return RunContext(
            run_id=self._job.run_id,
            attempt=self._lease.attempt,
            spec=self._job.spec,
            input=self._job.input,
            seconds_left=min(self._job.timeout.total_seconds(), self._latest - self._clock.monotonic()),
            emit=self._emit,
            cancelled=self._lease.cancelled,
        )

    async def _emit(self, event_type: str, payload: object) -> None:
        if event_type == "progress" and isinstance(payload, dict):
            self._lease.note(*progress_note(payload))
        await self._batcher.emit(event_type, payload)

    def _outcome(self, work: asyncio.Task[RunResult]) -> RunResult | AttemptEnd:
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is None:
            return work.result()
        known = isinstance(error, HoldfastError)
        log.error("engine_error", run_id=self._job.run_id, engine=self._job.engine, exc_info=None if known else error)
        return AttemptEnd(
            kind=AttemptKind.ENGINE_ERROR,
            failure_class=FailureClass.ACTIVATION_TIMEOUT if known else FailureClass.FRAMEWORK_ERROR,
            detail=error.line() if isinstance(error, HoldfastError) else f"engine_error: {type(error).__name__}",
            attempt=self._lease.attempt,
        )

    def _interruption(
        self, keeper: asyncio.Task[HoldfastError], feeder: asyncio.Task[None], stopping: asyncio.Task[bool]
    ) -> AttemptEnd | None:
        if keeper.done():
            return undelivered(keeper.result(), self._lease.attempt)
        if feeder.done() and isinstance(error := feeder.exception(), HoldfastError):
            return undelivered(error, self._lease.attempt)
        if stopping.done():
            return AttemptEnd(kind=AttemptKind.STOPPED, attempt=self._lease.attempt, detail="the process drains")
        return None

    async def _finish(self, result: RunResult) -> AttemptEnd:
        request = self._ending(result)
        await self._batcher.emit(*LAST_EVENT[request.status])
        try:
            await self._batcher.close()
            request, answer = await self._report(request)
        except CallbackError as error:
            return await self._give_up(undelivered(error, self._lease.attempt))
        kind = AttemptKind.UNACKNOWLEDGED
        if answer.accepted and answer.status is STATE_OF_PROGRESS[request.status]:
            kind = AttemptKind.DONE
        elif not answer.accepted:
            kind = AttemptKind.ALREADY_TERMINAL if answer.status in TERMINAL else AttemptKind.LEASE_LOST
        return AttemptEnd(
            kind=kind,
            state=answer.status,
            failure_class=request.failure_class,
            detail=request.error or "",
            attempt=self._lease.attempt,
        )

    async def _report(self, request: ProgressRequest) -> tuple[ProgressRequest, ProgressAnswer]:
        """The end that was reported at last, and its answer."""
        try:
            return request, await self._callbacks.progress(request, until=lambda: self._deadline)
        except CallbackRefused as error:
            if error.of_the_run or request.result is None:
                raise
            # A run must end truthfully even where its result cannot be kept.
            text = f"the result was refused: {error}"
        request = self._ending(failed(text, failure_class=FailureClass.RESULT_STORE_ERROR))
        return request, await self._callbacks.progress(request, until=lambda: self._deadline)

    def _ending(self, result: RunResult) -> ProgressRequest:
        result, encoded = kept_result(result)
        return ProgressRequest(
            job_id=self._job.job_id,
            lease_token=self._lease.token,
            status=result.status,
            progress=100,
            error=None if result.error is None else one_line(result.error),
            failure_class=result.failure_class,
            status_code=result.status_code,
            result=encoded,
        )

    async def _give_up(self, ended: AttemptEnd) -> AttemptEnd:
        """Ends an attempt that does not end its run: events go out if they can, and the lease back."""
        if ended.kind in (AttemptKind.LEASE_LOST, AttemptKind.REFUSED):
            return ended
        try:
            async with self._clock.timeout(STOP_REPORT_SECONDS):
                await self._batcher.close()
        except (TimeoutError, CallbackError) as error:
            log.info("events_not_delivered", run_id=self._job.run_id, cause=type(error).__name__)
        await self._lease.release(ended.failure_class, STOP_REPORT_SECONDS)
        return ended


async def _end_engine(work: asyncio.Task[RunResult], *others: asyncio.Task[bool]) -> None:
    try:
        await end(work, *others)
    finally:
        if not work.cancelled() and isinstance(error := work.exception(), EngineStillRunning):
            raise error
