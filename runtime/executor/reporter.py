"""What the API is told of a run while it goes on, as well as it can be told: no failure here fails the run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog
from msgspec import Struct

from runtime.contract.states import ProgressStatus
from runtime.execution.batcher import QUEUE_EVENTS, BatchRules, EventBatcher, EventSource
from runtime.execution.callback_messages import (
    CallbackError,
    Callbacks,
    EventsRequest,
    LeaseNotCurrent,
    ProgressAnswer,
    ProgressRequest,
    Until,
)
from runtime.execution.cancellation import until_stopped
from runtime.execution.event import Emitted
from runtime.execution.meters import Count, Meters
from runtime.execution.tasks import end
from runtime.executor.ending import Ending, Stop
from runtime.ports.clock import Clock, Timer

FLUSH_SECONDS: Final = 10.0
"""Longest for the last events of a run, and as long again for its end: with the engine's grace it stays inside the
30 s that the run's timeout leaves of the request."""
STUCK_SECONDS: Final = 5.0
"""Longest that an engine waits for the API to take the next batch, as long as one try of it; then events are lost."""
PATIENCE_SECONDS: Final = 30.0
"""Longest that the engine of one run waits for reports in all; of a short run at most a quarter of its time."""
HURRY_SECONDS: Final = 1.0
"""The same where the process drains."""
HEED_SECONDS: Final = 0.25
"""From the start of a run until it is asked for a cancellation, which is to reach it within a second; shorter runs are
over before anybody could want it."""

log = structlog.get_logger()


class ReportRules(Struct, frozen=True, kw_only=True):
    """How a run is reported.

    Attributes:
        lease: how long the run's lease is asked for; renewed three times as often.
        batch: when events go out.
    """

    lease: timedelta = timedelta(seconds=150)
    batch: BatchRules = BatchRules()


class ReportedRun(Struct, frozen=True, kw_only=True):
    """Whose reports they are.

    Attributes:
        run_id, job_id: the run.
        lease_token: the lease's that the API took for this call.
        patience: seconds that its engine may wait for room in all.
    """

    run_id: str
    job_id: str
    lease_token: str
    patience: float = PATIENCE_SECONDS

    def __repr__(self) -> str:
        return f"ReportedRun(run_id={self.run_id!r}, job_id={self.job_id!r})"


class Reporter:
    """Reports one run. An event that cannot be delivered is counted and lost; the next ones go on without a gap.

    Args:
        run: whose reports.
        callbacks: the API; tries as often as the settings say.
        clock: time.
        rules: limits.
        meters: counts; None counts nothing.
        stop: called where the API wants the run to stop.

    Attributes:
        dropped: events that were not delivered.
    """

    def __init__(
        self,
        run: ReportedRun,
        callbacks: Callbacks,
        clock: Clock,
        rules: ReportRules,
        *,
        meters: Meters | None,
        stop: Callable[[Stop], None],
    ) -> None:
        self._run = run
        self._callbacks = callbacks
        self._clock = clock
        self._rules = rules
        self._meters = meters
        self._stop = stop
        self._seconds = FLUSH_SECONDS
        self._scope: asyncio.Timeout | None = None
        self._counters: dict[str, Count] = {}
        self._note: tuple[int | None, str | None] = (None, None)
        self._open = 0
        self.dropped = 0
        self._patience = run.patience
        self._waits = True
        self._moved_at = 0.0
        self._room = asyncio.Event()
        self._lost = False
        self._following: tuple[int, int] | None = None
        source = EventSource(
            run_id=run.run_id, job_id=run.job_id, lease_token=run.lease_token, attempt=0, next_sequence=0
        )
        # Counted here: to the batcher every batch is delivered.
        self._batcher = EventBatcher(self, source, clock, until=lambda: 0.0, rules=rules.batch)
        self._tasks: list[asyncio.Task[None]] = []
        self._due: list[Timer] = []
        self._cutting: Timer | None = None

    def start(self) -> None:
        """Begins to send events and to renew the lease."""
        self._tasks.append(self._batcher.start())
        # Most runs end before either is due.
        self._later(self._rules.lease.total_seconds() / 3, self._renew)
        self._later(HEED_SECONDS, self._heed)

    def hurry(self) -> None:
        """The process drains: from now on little time is left."""
        self._seconds = HURRY_SECONDS
        scope = self._scope
        if scope is not None and self._cutting is None:
            self._cutting = self._clock.call_later(HURRY_SECONDS, lambda: self._cut(scope))

    def room(self) -> int:
        """See Reports; where nobody waits any more there is always some."""
        return self._batcher.room() if self._waits else QUEUE_EVENTS

    async def until_room(self) -> None:
        """See Reports: waits while the API takes batches, and as long as the run's patience lasts."""
        began = self._clock.monotonic()
        latest = began + self._patience
        while self.room() <= 0:
            left = min(latest, max(began, self._moved_at) + STUCK_SECONDS) - self._clock.monotonic()
            if left <= 0:
                self._waits = False
                log.warning("reports_not_waited_for", run_id=self._run.run_id)
                break
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(left):
                    await self._room.wait()
        self._patience = min(self._patience, max(0.0, latest - self._clock.monotonic()))

    def hasten(self) -> None:
        """See Reports."""
        self._patience = 0.0
        self._waits = False
        self._room.set()

    def extend(self, events: Sequence[Emitted], size: int, *, own: bool = False) -> None:
        """See Reports: what nobody waited for, and does not fit, is counted and lost."""
        self._open += len(events)
        lost = len(events) - self._batcher.extend(events, size, beyond=own)
        if lost:
            self._drop(lost)

    def note(self, progress: int | None, step: str | None) -> None:
        """What the next renewal reports beside the lease."""
        self._note = (progress, step)

    async def finish(self, ended: Ending) -> bool:
        """Sends the last events, then the end; whether the API has acknowledged the end."""
        await self._within(self._batcher.close())
        # A renewal that arrived after the end would read as a lost lease.
        await self._quiet()
        self._drop(self._open)
        if self._lost:
            return False
        answer = await self._within(self._callbacks.progress(self._ending(ended)))
        return answer is not None and answer.status is ended.state

    async def close(self) -> None:
        """Leaves nothing running."""
        await self._quiet()
        if self._cutting is not None:
            self._cutting.cancel()

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:  # noqa: ARG002 - tried as often as the settings say
        """See EventCallback; never fails."""
        self._room.set()  # they were taken out of the queue
        count = len(request.events)
        result = "failed"
        try:
            if not self._lost:
                await self._send(request)
                result = "acknowledged"
        except CallbackError as error:
            self._following = None
            log.warning("events_lost", run_id=self._run.run_id, events=count, error=error.line())
            self._judge(error)
        if result == "failed":
            self._drop(count)
        else:
            self._open -= count
            self._moved_at = self._clock.monotonic()
            self._waits = self._patience > 0
        self._count(result)
        return request.events.first + count

    async def _send(self, request: EventsRequest) -> None:
        if self._following is None:
            # After a loss only the API knows which number is next: what seemed lost may have arrived.
            self._heard(await self._callbacks.progress(self._renewal()))
        if self._following is None:
            raise LeaseNotCurrent(f"the lease of {self._run.job_id} is not this call's")
        attempt, first = self._following
        renumbered = EventsRequest(
            job_id=request.job_id, lease_token=request.lease_token, events=request.events.renumbered(attempt, first)
        )
        self._following = (attempt, await self._callbacks.events(renumbered))

    async def _renew(self) -> None:
        while not self._lost:
            try:
                self._heard(await self._callbacks.progress(self._renewal()), renewal=True)
            except CallbackError as error:
                log.warning("lease_not_renewed", run_id=self._run.run_id, error=error.line())
                self._judge(error)
            await self._clock.sleep(self._rules.lease.total_seconds() / 3)

    async def _heed(self) -> None:
        said = await until_stopped(self._callbacks, self._clock)
        if said is not None and said.cancel_requested:
            self._stop(Stop.CANCEL_REQUESTED)
        elif said is not None:
            self._judge(LeaseNotCurrent(f"the run of {self._run.job_id} has ended without this call"))

    def _heard(self, answer: ProgressAnswer, *, renewal: bool = False) -> None:
        if not answer.lease_acquired:
            self._judge(LeaseNotCurrent(f"the lease of {self._run.job_id} is not this call's"))
            return
        if not renewal:
            self._following = (answer.attempt, answer.next_sequence)
        if answer.cancel_requested:
            self._stop(Stop.CANCEL_REQUESTED)

    def _judge(self, error: CallbackError) -> None:
        if isinstance(error, LeaseNotCurrent):
            self._lost = True
            self._stop(Stop.LEASE_LOST)

    async def _within(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The outcome of reporting work inside its time; None where it failed or took too long."""
        scope = self._scope = self._clock.timeout(self._seconds)
        try:
            async with scope:
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            log.warning("report_cut_short", run_id=self._run.run_id)
        except CallbackError as error:
            log.warning("report_failed", run_id=self._run.run_id, error=error.line())
        finally:
            self._scope = None
        return None

    def _cut(self, scope: asyncio.Timeout) -> None:
        if self._scope is scope:
            scope.reschedule(asyncio.get_running_loop().time())

    def _later(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def begin() -> None:
            self._tasks.append(asyncio.create_task(work()))

        self._due.append(self._clock.call_later(seconds, begin))

    async def _quiet(self) -> None:
        """Ends what reports by itself."""
        for timer in self._due:
            timer.cancel()
        await end(*self._tasks)

    def _renewal(self) -> ProgressRequest:
        progress, step = self._note
        return ProgressRequest(
            job_id=self._run.job_id,
            lease_token=self._run.lease_token,
            status=ProgressStatus.RUNNING,
            lease_duration_ms=round(self._rules.lease.total_seconds() * 1000),
            progress=progress,
            current_step=step,
        )

    def _ending(self, ended: Ending) -> ProgressRequest:
        result = ended.result
        return ProgressRequest(
            job_id=self._run.job_id,
            lease_token=self._run.lease_token,
            status=result.status,
            progress=100,
            error=result.error,
            failure_class=result.failure_class,
            status_code=result.status_code,
            result=ended.output,
        )

    def _count(self, result: str) -> None:
        if self._meters is None:
            return
        counter = self._counters.get(result)
        if counter is None:  # finding a counter by its label costs more than counting
            counter = self._counters[result] = self._meters.callback_batches.labels(result)
        counter.inc()

    def _drop(self, events: int) -> None:
        self._open -= events
        self.dropped += events
        if self._meters is not None and events:
            self._meters.callback_drops.inc(events)
