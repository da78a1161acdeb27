"""P0: the worker's HTTP side: `POST /` for deliveries, health and metrics for the platform, nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final

import structlog

from runtime.contract.outcomes import outcome
from runtime.contract.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from runtime.http.server.answer import Answer, plain
from runtime.http.server.application import Application
from runtime.http.server.limits import Limits
from runtime.http.server.request import Request
from runtime.http.server.server import Server
from runtime.observability.metrics import UNMATCHED
from runtime.ports.documents import Key, StoreUnavailable
from runtime.ports.tracing import Attributes, SpanKind
from runtime.server import DRAIN_CONNECTIONS_SECONDS, LINGER_SECONDS, health_pages
from runtime.worker.claim import Claims
from runtime.worker.delivery import deliver
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import ClaimTools
from runtime.worker.request import PushRequest
from runtime.worker.respond import respond

ROUTE: Final = "/"
"""Where deliveries are pushed to."""
MALFORMED: Final = "malformed_request"
"""Answer to bytes that are no HTTP, or too many of them."""

_SPAN: Final[Attributes] = {"http.request.method": "POST", "http.route": ROUTE}
_TRACEPARENT: Final = TRACEPARENT.encode()
_TRACESTATE: Final = TRACESTATE.encode()
_READ: Final = frozenset({"GET", "HEAD"})

log = structlog.get_logger()


class WorkerApp:
    """The worker as an application; see runtime.http.server.application.Application.

    Its start reads the claims once; its end closes documents and workload.

    Args:
        deps: the worker's parts.
        during: entered one after the other at the start, and left at the end.
    """

    def __init__(self, deps: WorkerDeps, during: Sequence[AbstractAsyncContextManager[None]] = ()) -> None:
        self._deps = deps
        self._during = during
        self._entered = AsyncExitStack()
        tools = ClaimTools(deps.documents, deps.settings, deps.clock, deps.metrics, deps.lifecycle)
        owner = f"{deps.revision}/{uuid.uuid4()}"
        self._claims = Claims(tools, owner=owner)
        self._pages = health_pages(deps.lifecycle, deps.metrics, f"worker-{deps.settings.workload}")
        self._in_flight = 0
        deps.metrics.requests_in_flight.set_function(lambda: self._in_flight)

    def handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        """See Application. No answer but that of a delivery could acknowledge one."""
        if request.path == b"/" and request.method == "POST":
            return self._push(request)
        path = request.path.decode("latin-1")
        page = self._pages.get(path)
        if path != ROUTE and page is None:
            answer = plain(404)
        elif page is None or request.method not in _READ:
            answer = plain(405, Allow="POST" if page is None else "GET,HEAD")
        else:
            status, kind, body = page()
            answer = Answer(status, body, kind)
            self._deps.metrics.answered(path, request.method, status)
            return answer
        self._deps.metrics.answered(UNMATCHED, request.method, answer.status)
        return answer

    def surprised(self, error: BaseException) -> Answer:
        """See Application."""
        log.error("unhandled_error", exc_info=error)
        answer = respond(outcome("unhandled_error"))
        self._deps.metrics.answered(ROUTE, "POST", answer.status)
        return answer

    def malformed(self, status: int, kind: str) -> Answer:
        """See Application. What was sent is repeated nowhere."""
        log.info("request_malformed", kind=kind)
        self._deps.metrics.malformed(status)
        return plain(status, MALFORMED)

    async def start(self) -> None:
        """See Application."""
        for context in self._during:
            await self._entered.enter_async_context(context)
        await self._check_store()
        self._say_how()

    async def close(self) -> None:
        """See Application."""
        await self._entered.aclose()
        await self._deps.workload.close()
        await self._deps.documents.close()

    async def _push(self, request: Request) -> Answer:
        deps = self._deps
        self._in_flight += 1
        try:
            parent = _trace_of(request)
            with deps.tracing.span(ROUTE, SpanKind.SERVER, parent=parent, attributes=_SPAN) as span:
                answer = respond(await deliver(deps, self._claims, _push_request(request)))
                span.set("http.response.status_code", answer.status)
                if answer.status >= 500:
                    span.fail(str(answer.status))
        finally:
            self._in_flight -= 1
        deps.metrics.answered(ROUTE, "POST", answer.status)
        return answer

    async def _check_store(self) -> None:
        """One read. A store that will go on saying no stops the start; one that is away only delays deliveries."""
        try:
            await self._deps.documents.get(Key(self._deps.settings.claims_collection, "self-check"))
        except StoreUnavailable as error:
            log.warning("claim_store_unavailable", error=str(error), start="goes on")

    def _say_how(self) -> None:
        settings = self._deps.settings
        log.info(
            "worker_started",
            workload=str(settings.workload),
            project=settings.project_id,
            subscription=settings.subscription,
            push_auth=str(settings.push_auth),
            push_audience=settings.push_audience or "derived from Host",
            push_service_account=settings.push_service_account,
            claims_collection=settings.claims_collection,
            claim_owner=self._claims.owner,
            max_delivery_attempts=settings.max_attempts,
            cut_off=settings.cut_off,
            request_timeout=settings.request_timeout.total_seconds(),
            process_timeout=settings.process_timeout.total_seconds(),
            run_timeout=settings.run_timeout.total_seconds(),
        )
        if settings.process_timeout > settings.ack_deadline:
            log.warning("process_timeout_beyond_ack_deadline", ack_deadline=settings.ack_deadline.total_seconds())


def server_of(app: Application, deps: WorkerDeps, limits: Limits | None = None) -> Server:
    """The server of a worker, as every process of one runs it.

    Args:
        app: a WorkerApp.
        deps: the ones of the app.
        limits: None means those of production.
    """
    return Server(
        app,
        deps.clock,
        limits=limits or Limits(linger=LINGER_SECONDS),
        stop_within=DRAIN_CONNECTIONS_SECONDS,
        track=deps.lifecycle.track,
        draining=deps.lifecycle.draining,
    )


def _trace_of(request: Request) -> TraceContext | None:
    parent = request.text(_TRACEPARENT)
    return TraceContext.read(parent, request.text(_TRACESTATE)) if parent else None


def _push_request(request: Request) -> PushRequest:
    hosts = request.values(b"host")
    return PushRequest(
        authorization=request.values(b"authorization"),
        host=hosts[0].decode("latin-1") if hosts else "",
        content_encoding=request.text(b"content-encoding"),
        content_length=request.length,
        body=request.body.chunks,
        at_hand=request.body.at_hand,
    )
