"""The callbacks of workers."""

from __future__ import annotations

from aiohttp import web

from runtime.api import query_string
from runtime.api.access import Access
from runtime.api.body import expect_nothing_yet, read_json_body
from runtime.api.callbacks import Callbacks
from runtime.api.cancellation import Cancellations
from runtime.api.event_feed import WAIT_MAX
from runtime.api.json_value import off_loop
from runtime.api.problem import FieldFault, Problem
from runtime.api.report import read_events, read_progress
from runtime.api.transitions import Holder
from runtime.contract.names import CALLBACK_CANCELLATION_PATH, CALLBACK_EVENTS_PATH, CALLBACK_PROGRESS_PATH
from runtime.http.presence import is_gone
from runtime.identity.job_token import JobClaims
from runtime.ports.clock import Clock


class CallbackRoutes:
    """The routes of the bearers of a job token."""

    def __init__(self, callbacks: Callbacks, cancellations: Cancellations, clock: Clock) -> None:
        self._callbacks = callbacks
        self._cancellations = cancellations
        self._clock = clock

    def add_to(self, app: web.Application, access: Access) -> None:
        """Adds the routes."""
        for path, handler in ((CALLBACK_PROGRESS_PATH, self.progress), (CALLBACK_EVENTS_PATH, self.events)):
            app.router.add_post(path, access.with_job_token(handler), expect_handler=expect_nothing_yet)
        app.router.add_get(CALLBACK_CANCELLATION_PATH, access.with_job_token(self.cancellation), allow_head=False)

    async def progress(self, request: web.Request, claims: JobClaims) -> web.StreamResponse:
        """Takes or renews a lease, or ends the run."""
        body = await read_json_body(request, self._clock)
        report = await off_loop(len(body), lambda: read_progress(body))
        _check_job(report.holder, claims)
        return web.json_response(await self._callbacks.progress(claims.run_id, report))

    async def events(self, request: web.Request, claims: JobClaims) -> web.StreamResponse:
        """Records events."""
        body = await read_json_body(request, self._clock)
        report = await off_loop(len(body), lambda: read_events(body))
        _check_job(report.holder, claims)
        return web.json_response(await self._callbacks.events(claims.run_id, report))

    async def cancellation(self, request: web.Request, claims: JobClaims) -> web.StreamResponse:
        """Whether the run is to stop, or has ended: at once, or as soon as it is so."""
        query_string.only(request, ("wait",))
        wait = query_string.integer(request, "wait", 0, WAIT_MAX, 0)
        answer = await self._cancellations.poll(claims.run_id, claims.job_id, wait, lambda: is_gone(request))
        return web.json_response(answer)


def _check_job(holder: Holder, claims: JobClaims) -> None:
    if holder.job_id != claims.job_id:
        raise Problem(
            403,
            "job_mismatch",
            f"the token is for job {claims.job_id}, the body for {holder.job_id}",
            faults=[FieldFault("/job_id", f"must be {claims.job_id}")],
        )
