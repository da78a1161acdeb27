"""`/v1/runs`: submit, read, list, cancel, follow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import hdrs, web

from runtime.api import query_string, run_view
from runtime.api.access import Access
from runtime.api.api_key import Caller, Scope
from runtime.api.body import expect_nothing_yet, read_json_body
from runtime.api.event_feed import WAIT_MAX, EventFeed
from runtime.api.event_stream import EventStream, resumes_at_end
from runtime.api.fields import RUN_ID
from runtime.api.json_value import EXACT_INTEGER, off_loop
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem, unknown_run
from runtime.api.run_list import RunList
from runtime.api.run_record import RunRecord
from runtime.api.run_request import RunRules, read_run_request
from runtime.api.run_store import Change, RunStore
from runtime.api.stream_run import StreamRuns
from runtime.api.submission import Submissions
from runtime.api.sync_run import SyncRuns
from runtime.api.transitions import cancel
from runtime.contract.states import RunMode, RunState
from runtime.http.presence import is_gone
from runtime.ports.clock import Clock

PAGE: Final = 50
PAGE_MAX: Final = 200
"""Runs of one page, at most; the default is PAGE."""


@dataclass(frozen=True, slots=True)
class WaitedRuns:
    """What serves callers that wait for their runs."""

    results: SyncRuns
    streams: StreamRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What the routes of runs work with; `waited` is None exactly where the rules allow no such run."""

    rules: RunRules
    submissions: Submissions
    runs: RunStore
    run_list: RunList
    payloads: Payloads
    feed: EventFeed
    stream: EventStream
    waited: WaitedRuns | None
    clock: Clock


class RunRoutes:
    """The routes of callers with the RUNS scope."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts

    def add_to(self, app: web.Application, access: Access) -> None:
        """Adds the routes."""
        submit = access.with_key(Scope.RUNS, self.submit, begins_work=True)
        app.router.add_post("/v1/runs", submit, expect_handler=expect_nothing_yet)
        app.router.add_get("/v1/runs", access.with_key(Scope.RUNS, self.list))
        app.router.add_get("/v1/runs/{run_id}", access.with_key(Scope.RUNS, self.show))
        app.router.add_get("/v1/runs/{run_id}/events", access.with_key(Scope.RUNS, self.events), allow_head=False)
        app.router.add_post("/v1/runs/{run_id}/cancel", access.with_key(Scope.RUNS, self.cancel))

    async def submit(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Accepts a run: 202 for a new one, 200 for a repeated request, and for one that was waited for."""
        arrived = self._parts.clock.monotonic()
        body = await read_json_body(request, self._parts.clock)
        wanted = await off_loop(len(body), lambda: read_run_request(body, self._parts.rules))
        waited = self._parts.waited
        if wanted.mode is RunMode.STREAM and waited is not None:
            return await waited.streams.answer(request, wanted, caller.name)
        if wanted.mode is RunMode.SYNC and waited is not None:
            ended = await waited.results.ended(wanted, caller.name, arrived, lambda: is_gone(request))
            return _accepted(200, run_view.whole(ended.record, ended.result), duplicate=ended.duplicate)
        done = await self._parts.submissions.submit(wanted, caller.name)
        return _accepted(200 if done.duplicate else 202, await self._whole(done.record), duplicate=done.duplicate)

    async def show(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """One run, with its result."""
        query_string.only(request, ())
        return web.json_response(await self._whole((await self._parts.runs.get(_run_id(request))).record))

    async def list(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Runs, newest first."""
        query_string.only(request, ("state", "limit", "before"))
        state = query_string.word(request, "state", RunState)
        limit = query_string.integer(request, "limit", 1, PAGE_MAX, PAGE)
        runs, more = await self._parts.run_list.page(state, query_string.cursor(request, "before"), limit)
        return web.json_response({"runs": [run_view.summary(run) for run in runs], "next_before": more})

    async def cancel(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Ends a run that was not begun (200), or asks the running attempt to stop (202)."""
        query_string.only(request, ())

        def step(record: RunRecord, now: datetime) -> Change[bool]:
            return Change(record.ended, cancel(record, now))

        record, had_ended = await self._parts.runs.change(_run_id(request), step)
        if had_ended:
            raise Problem(
                409,
                "run_already_ended",
                f"run {record.run_id} is {record.state} already and cannot be cancelled",
                members={"run_id": record.run_id, "state": record.state.value},
            )
        return web.json_response(run_view.whole(record), status=200 if record.ended else 202)

    async def events(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Events after a sequence: at once, after a wait, or as a stream."""
        query_string.only(request, ("after", "wait"))
        run_id = _run_id(request)
        after = query_string.integer(request, "after", -1, EXACT_INTEGER, -1)
        if _wants_stream(request):
            after = _last_event_id(request, after)
            if resumes_at_end(request, (await self._parts.runs.get(run_id)).record, after):
                return web.Response(status=204)
            return await self._parts.stream.answer(request, run_id, after)
        page = await self._parts.feed.poll(run_id, after, query_string.integer(request, "wait", 0, WAIT_MAX, 0))
        return web.json_response(
            {
                "run_id": run_id,
                "state": page.record.state.value,
                "events": page.events,
                "next_after": page.last,
                "complete": page.complete,
            }
        )

    async def _whole(self, record: RunRecord) -> dict[str, object]:
        result = await self._parts.payloads.result(record.run_id) if record.has_result else None
        return run_view.whole(record, result)


def _accepted(status: int, run: dict[str, object], *, duplicate: bool) -> web.Response:
    headers = {"Location": f"/v1/runs/{run['run_id']}"}
    return web.json_response({**run, "duplicate": duplicate}, status=status, headers=headers)


def _run_id(request: web.Request) -> str:
    run_id = request.match_info["run_id"]
    if RUN_ID.fullmatch(run_id) is None:
        raise unknown_run(run_id[:64])
    return run_id


def _wants_stream(request: web.Request) -> bool:
    kinds = ",".join(request.headers.getall(hdrs.ACCEPT, [])).split(",")
    return any(kind.partition(";")[0].strip().lower() == "text/event-stream" for kind in kinds)


def _last_event_id(request: web.Request, default: int) -> int:
    text = request.headers.get(hdrs.LAST_EVENT_ID)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16:
        raise Problem(400, "invalid_last_event_id", "Last-Event-ID must be the sequence of an event")
    return int(text)
