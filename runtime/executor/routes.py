"""The three ways to run a job: for its result, and for its events in two forms."""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

from runtime.execution.tasks import first_done
from runtime.executor.channel import Channel, PositionGone
from runtime.executor.deps import ExecutorDeps
from runtime.executor.ending import Stop
from runtime.executor.intake import Accepted, Intake
from runtime.executor.runs import Runs
from runtime.executor.stream import Reading, StreamForm, StreamWriter
from runtime.http.body import expect_nothing_yet
from runtime.http.presence import LEFT_STATUS, LOOK_SECONDS, is_gone
from runtime.http.problem import Problem

EXECUTE: Final = "/execute"
EXECUTE_STREAM: Final = "/execute/stream"
EXECUTE_SSE: Final = "/execute/sse"


class ExecuteRoutes:
    """Serves calls.

    Args:
        deps: of the executor.
        runs: of the process.
    """

    def __init__(self, deps: ExecutorDeps, runs: Runs) -> None:
        self._deps = deps
        self._runs = runs
        self._intake = Intake(deps)
        self._writer = StreamWriter(deps.clock, deps.metrics)

    def add_to(self, app: web.Application) -> None:
        """Adds the routes."""
        for path, handler in (
            (EXECUTE, self.execute),
            (EXECUTE_STREAM, self.stream),
            (EXECUTE_SSE, self.sse),
        ):
            app.router.add_post(path, handler, expect_handler=expect_nothing_yet)

    async def execute(self, request: web.Request) -> web.StreamResponse:
        """`POST /execute`: the result; a caller that leaves cancels the run."""
        working = self._runs.start(await self._intake.read(request), None)
        while not await first_done(self._deps.clock, LOOK_SECONDS, working.task):
            if is_gone(request):
                working.run.stop(Stop.CALLER_LEFT)
        ended = working.task.result()
        if is_gone(request):
            return web.Response(status=LEFT_STATUS)
        return web.Response(body=ended.answer(), headers={hdrs.CONTENT_TYPE: "application/json"})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """`POST /execute/stream`: the events as NDJSON; the run goes on without its caller."""
        accepted = await self._intake.read(request)
        return await self._writer.answer(request, self._begun(accepted, StreamForm.NDJSON))

    async def sse(self, request: web.Request) -> web.StreamResponse:
        """`POST /execute/sse`: the events as server-sent events; the same call with `Last-Event-ID` resumes."""
        accepted = await self._intake.read(request)
        after = request.headers.get("Last-Event-ID")
        reading = self._resumed(accepted, after) if after else self._begun(accepted, StreamForm.SSE)
        return await self._writer.answer(request, reading)

    def _begun(self, accepted: Accepted, form: StreamForm) -> Reading:
        channel = Channel(self._deps.clock, self._deps.channel)
        reader = channel.attach()
        over = self._runs.start(accepted, channel).over
        return Reading(channel=channel, reader=reader, over=over, latest=accepted.latest, form=form)

    def _resumed(self, accepted: Accepted, after: str) -> Reading:
        held = self._runs.held(accepted.job.job_id)
        if held is None:
            raise Problem(
                404, "run_not_held", f"this instance has no stream of job {accepted.job.job_id!r}; ask for its record"
            )
        try:
            reader = held.channel.attach(after)
        except PositionGone as error:
            raise Problem(410, error.code, str(error)) from None
        return Reading(channel=held.channel, reader=reader, over=held.over, latest=accepted.latest, form=StreamForm.SSE)
