"""The executor's parts on a clock that the test moves, and the API's side of its runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from runtime.adapters.clock import ManualClock
from runtime.contract.states import STATE_OF_PROGRESS, ProgressStatus, RunState
from runtime.execution.callback_messages import (
    CallbackError,
    Cancellation,
    EventsRequest,
    ProgressAnswer,
    ProgressRequest,
    Until,
)
from runtime.execution.event import EventRecord
from runtime.executor.channel import Channel, ChannelRules
from runtime.executor.ending import Ending
from runtime.executor.reporter import ReportRules
from runtime.executor.run import Execution, ExecutorRun
from runtime.executor.stream_event import ndjson
from runtime.observability.metrics import Metrics
from tests.support.run_api import job
from tests.support.scripted_engine import Script, ScriptedEngine


class RecordedApi:
    """Takes callbacks as the API does, and keeps what it was sent.

    Attributes:
        fault: asked before each call, with `progress` or `events` and the request; what it returns is raised.
        after: the same, once the call was applied, as if its answer were lost.
        gate: every call waits while it is clear.
        held: whether the lease is the caller's.
        cancel_requested: part of every progress answer.
        stopped: what the question for a cancellation is answered with; waited for while there is nothing.
    """

    def __init__(self) -> None:
        self.events_kept: list[EventRecord] = []
        self.batches: list[int] = []
        self.reports: list[ProgressRequest] = []
        self.fault: Callable[[str, object], CallbackError | None] = lambda _kind, _request: None
        self.after: Callable[[str, object], CallbackError | None] = lambda _kind, _request: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.held = True
        self.stopped: asyncio.Queue[Cancellation | CallbackError] = asyncio.Queue()
        self.cancel_requested = False

    async def progress(self, request: ProgressRequest, *, until: Until | None = None) -> ProgressAnswer:
        assert until is None, "a run that somebody waits for is reported a number of times, not for as long as it takes"
        await self._asked("progress", request)
        self.reports.append(request)
        state = STATE_OF_PROGRESS[request.status] if self.held else RunState.CANCELLED
        self._answered("progress", request)
        return ProgressAnswer(
            accepted=self.held,
            status=state,
            lease_acquired=self.held,
            attempt=3,
            next_sequence=len(self.events_kept),
            cancel_requested=self.cancel_requested,
        )

    async def events(self, request: EventsRequest, *, until: Until | None = None) -> int:
        assert until is None, "a run that somebody waits for is reported a number of times, not for as long as it takes"
        await self._asked("events", request)
        first = request.events[0].sequence
        assert first == len(self.events_kept), "events are numbered on from what the API has"
        self.events_kept += request.events
        self.batches.append(len(request.events))
        self._answered("events", request)
        return len(self.events_kept)

    async def cancellation(self, *, wait: int) -> Cancellation:
        answer = await self.stopped.get()
        if isinstance(answer, CallbackError):
            raise answer
        return answer

    @property
    def types(self) -> list[str]:
        """Types of the events that arrived."""
        return [event.event_type for event in self.events_kept]

    @property
    def end(self) -> ProgressRequest:
        """The end that was reported."""
        (last,) = (report for report in self.reports if report.status is not ProgressStatus.RUNNING)
        return last

    async def _asked(self, kind: str, request: object) -> None:
        await self.gate.wait()
        if (fault := self.fault(kind, request)) is not None:
            raise fault

    def _answered(self, kind: str, request: object) -> None:
        if (fault := self.after(kind, request)) is not None:
            raise fault


class RunBench:
    """One run, on a moved clock; `script` None is an engine that is not there."""

    def __init__(self, script: Script | None, *, rules: ChannelRules | None = None, seconds: float = 60) -> None:
        self.clock = ManualClock()
        self.api = RecordedApi()
        self.metrics = Metrics()
        self.channel = Channel(self.clock, rules)
        self.reader = self.channel.attach()
        self.engine = None if script is None else ScriptedEngine(script)
        self.run = ExecutorRun(
            Execution(
                job=job(timeout=timedelta(seconds=seconds)),
                lease_token="lease",
                latest=self.clock.monotonic() + 3540,
                engine=self.engine,
                callbacks=self.api,
                rules=ReportRules(),
                clock=self.clock,
                metrics=self.metrics,
                channel=self.channel,
            )
        )
        self.task: asyncio.Task[Ending] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.run.execute())

    async def ended(self, seconds: float = 120) -> Ending:
        """The end of the run, and what is on the clock then is no more than `seconds` later."""
        if self.task is None:
            self.start()
        task = self.task
        assert task is not None
        latest = self.clock.monotonic() + seconds
        await self.clock.advance(0)
        while not task.done():
            assert self.clock.monotonic() < latest, "the run does not end"
            await self.clock.advance(0.25)
        return task.result()

    def stream(self) -> list[dict[str, Any]]:
        """Every event that waits for the reader, taken."""
        taken = []
        while batch := self.channel.take(16 * 1024):
            taken += [json.loads(line) for line in ndjson(self.channel.name, batch).splitlines()]
        return taken

    def lost(self) -> float:
        return self.metrics.registry.get_sample_value("callback_drops_total") or 0
