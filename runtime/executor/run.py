"""One run in the executor: its engine, its events, its end, which comes exactly once whatever happens."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from runtime.contract.errors import HoldfastError
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.answer import failed, timed_out
from runtime.execution.callback_messages import Callbacks
from runtime.execution.event import LAST_EVENT
from runtime.execution.job import Job
from runtime.execution.tasks import end, first_done
from runtime.executor.channel import Channel, SlowConsumer
from runtime.executor.emitter import Emitter
from runtime.executor.ending import Ending, Stop, ending, stopped
from runtime.executor.reporter import PATIENCE_SECONDS, ReportedRun, Reporter, ReportRules
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.engine import Engine, EngineStillRunning, RunContext, RunResult
from runtime.ports.tracing import PASSED_ON, Tracing

ENGINE_GRACE_SECONDS: Final = 4.0
"""How long after its deadline an engine may still be busy with ending; then it is cut off."""
STOP_SECONDS: Final = 1.5
"""Longest that an engine may take to stop when it is told to."""
REJECTED: Final = "rejected:engine"
"""`current_step` of a run whose engine is not there."""

log = structlog.get_logger()


class Execution(Struct, frozen=True, kw_only=True):
    """What one run is made of.

    Attributes:
        job: verified.
        lease_token: the lease's that the API took for this call.
        latest: monotonic time after which its engine may not work.
        engine: None where the deployment has none of that name.
        callbacks: the API.
        rules: of reporting.
        clock: time.
        metrics: counts.
        tracing: of the process.
        channel: to the reader of a stream; None where the caller waits for the result alone.
    """

    job: Job
    lease_token: str
    latest: float
    engine: Engine | None
    callbacks: Callbacks
    rules: ReportRules
    clock: Clock
    metrics: Metrics
    tracing: Tracing = PASSED_ON
    channel: Channel | None = None

    def __repr__(self) -> str:
        return f"Execution(job={self.job!r}, latest={self.latest!r}, engine={self.engine!r})"


class ExecutorRun:
    """Works one job once.

    Args:
        execution: what it is made of.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._job = execution.job
        self._clock = execution.clock
        self._channel = execution.channel
        self._why: Stop | None = None
        self._stopping = asyncio.get_running_loop().create_future()
        self._cancelled = asyncio.Event()
        self._began = execution.clock.monotonic()
        self._reporter = Reporter(
            ReportedRun(
                run_id=self._job.run_id,
                job_id=self._job.job_id,
                lease_token=execution.lease_token,
                patience=min(PATIENCE_SECONDS, self._job.timeout.total_seconds() / 4),
            ),
            execution.callbacks,
            execution.clock,
            execution.rules,
            meters=execution.metrics,
            stop=self.stop,
        )
        self._emitter = Emitter(
            execution.clock,
            execution.channel,
            self._reporter,
            stalled=self._stalled,
        )

    def stop(self, why: Stop) -> None:
        """Ends the run soon; the first reason counts. A drain also leaves its reports little time."""
        if why is Stop.DRAINING:
            self._reporter.hurry()
        if self._why is None:
            self._why = why
            self._emitter.stop()
            self._cancelled.set()
            self._stopping.set_result(None)

    async def execute(self) -> Ending:
        """Works, reports, and says `completed` last, on every way out."""
        self._say("run_initiated", {"run_id": self._job.run_id})
        try:
            with self._execution.tracing.span("run", attributes={"holdfast.engine": self._job.engine}) as span:
                ended = await self._execute()
                span.set("holdfast.state", ended.state.value)
        except asyncio.CancelledError:
            self._complete(self._ending(stopped(Stop.DRAINING)), "error")
            raise
        except Exception:
            log.exception("execution_failed", run_id=self._job.run_id)
            ended = self._ending(failed("internal: the executor failed; the fault is in its log", status_code=500))
            self._complete(ended, "error")
            return ended
        self._complete(ended)
        return ended

    async def _execute(self) -> Ending:
        self._reporter.start()
        try:
            ended = await self._worked()
            if self._reporter.dropped:
                text = f"{self._reporter.dropped} events were not recorded"
                self._tell("log", {"level": "warning", "message": text})
            self._tell(*LAST_EVENT[ended.result.status])
            reported = await self._reporter.finish(ended)
            return replace(ended, reported=reported, events_dropped=self._reporter.dropped)
        finally:
            await self._reporter.close()

    async def _worked(self) -> Ending:
        engine = self._execution.engine
        if engine is None:
            text = f"this deployment has no engine {self._job.engine!r}"
            result = failed(text, status_code=503, failure_class=FailureClass.NO_WORKER_TEMPLATE)
            return self._ending(result, REJECTED)
        self._tell("log", {"level": "info", "message": "Execution started"})
        seconds = min(self._job.timeout.total_seconds(), self._execution.latest - self._clock.monotonic())
        if seconds <= 0:
            return self._ending(timed_out(), "rejected:deadline")
        return self._ending(await self._result(engine, seconds))

    async def _result(self, engine: Engine, seconds: float) -> RunResult:
        work = asyncio.create_task(engine.run(self._context(seconds)), name="engine")
        try:
            await first_done(self._clock, seconds + ENGINE_GRACE_SECONDS, work, self._stopping)
            self._cancelled.set()
            in_time = work.done() or self._why is not None
            await first_done(self._clock, STOP_SECONDS, work)
            result = self._outcome(work) if work.done() else timed_out()
            # What completed just in time is completed; only where nobody can have it, it is not.
            lost = self._why in (Stop.SLOW_CONSUMER, Stop.LEASE_LOST)
            if result.status is ProgressStatus.COMPLETED and not lost:
                return result
            if self._why is not None:
                return stopped(self._why)
            return result if in_time else timed_out()
        finally:
            await end(work)

    def _outcome(self, work: asyncio.Task[RunResult]) -> RunResult:
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is None:
            return work.result()
        known = isinstance(error, HoldfastError)
        begun = not known or isinstance(error, EngineStillRunning)
        log.error("engine_error", run_id=self._job.run_id, engine=self._job.engine, exc_info=None if known else error)
        return failed(
            error.line() if isinstance(error, HoldfastError) else f"engine_error: {type(error).__name__}",
            failure_class=FailureClass.FRAMEWORK_ERROR if begun else FailureClass.ACTIVATION_TIMEOUT,
        )

    def _context(self, seconds: float) -> RunContext:
        return RunContext(
            run_id=self._job.run_id,
            attempt=1,
            spec=self._job.spec,
            input=self._job.input,
            seconds_left=seconds,
            emit=self._emitter.emit,
            cancelled=self._cancelled,
        )

    def _stalled(self, error: SlowConsumer) -> None:
        log.warning("slow_consumer", run_id=self._job.run_id, error=str(error))
        self.stop(Stop.SLOW_CONSUMER)

    def _ending(self, result: RunResult, step: str | None = None) -> Ending:
        return ending(self._job.run_id, result, round(1000 * (self._clock.monotonic() - self._began)), step)

    def _tell(self, event_type: str, payload: object) -> None:
        """Says something to the reader and to the API."""
        self._emitter.say(event_type, msgspec.json.encode(payload))

    def _say(self, event_type: str, payload: object) -> None:
        """Says something to the reader alone."""
        if self._channel is not None:
            self._emitter.say(event_type, msgspec.json.encode(payload), reported=False)

    def _complete(self, ended: Ending, event_type: str | None = None) -> None:
        if event_type is not None:
            self._say(event_type, {"message": ended.result.error})
        if self._channel is not None:
            self._emitter.say("completed", ended.last_event(), reported=False, last=True)
        failure_class = ended.result.failure_class
        self._execution.metrics.runs.labels(ended.state.value, failure_class.value if failure_class else "").inc()
        log.info(
            "run_ended",
            run_id=self._job.run_id,
            state=ended.state.value,
            duration_ms=ended.milliseconds,
            stopped=self._why,
            reported=ended.reported,
        )
