"""P0: the worker's HTTP side: `POST /` for deliveries, health and metrics for the platform, nothing else."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Final

import structlog
from aiohttp import StreamReader, hdrs, web

from runtime.contract.outcomes import outcome
from runtime.observability.metrics import METRICS, Handler, count_requests
from runtime.observability.request_span import trace_requests
from runtime.ports.documents import Key, StoreUnavailable
from runtime.server import add_health_routes
from runtime.worker.claim import Claims
from runtime.worker.delivery import deliver
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import ClaimTools
from runtime.worker.request import PushRequest, Refused
from runtime.worker.respond import respond

DEPS: Final = web.AppKey("deps", WorkerDeps)
CLAIMS: Final = web.AppKey("claims", Claims)

log = structlog.get_logger()


def create_app(deps: WorkerDeps) -> web.Application:
    """The worker as an application. Serve it with `auto_decompress=False`: no body of a push may be inflated.

    Its start reads the claims once; its clean-up closes documents and workload.
    """
    app = web.Application(middlewares=[count_requests(deps.metrics), trace_requests(deps.tracing), plain_errors])
    owner = f"{deps.revision}/{uuid.uuid4()}"
    tools = ClaimTools(deps.documents, deps.settings, deps.clock, deps.metrics, deps.lifecycle.track)
    app[DEPS] = deps
    app[METRICS] = deps.metrics
    app[CLAIMS] = Claims(tools, owner=owner, draining=deps.lifecycle.draining)
    app.router.add_route(hdrs.METH_POST, "/", push, expect_handler=_expect_nothing_yet)
    add_health_routes(app, deps.lifecycle, deps.metrics, f"worker-{deps.settings.workload}")
    app.on_startup.append(_check_store)
    app.on_startup.append(_say_how)
    app.on_cleanup.append(_close)
    return app


async def push(request: web.Request) -> web.Response:
    """Answers a delivery. The work belongs to a task of its own: it outlives a caller that hangs up."""
    deps = request.app[DEPS]
    delivery = asyncio.create_task(deliver(deps, request.app[CLAIMS], _push_request(request)), name="delivery")
    deps.lifecycle.track(delivery)
    try:
        answer = await asyncio.shield(delivery)
    except asyncio.CancelledError:
        if not delivery.done():
            raise
        answer = outcome("unhandled_error")
    return respond(answer)


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """No page of the framework leaves the worker, and no answer that could acknowledge."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        allow = error.headers.get(hdrs.ALLOW)
        return web.Response(status=error.status, text=error.reason, headers={hdrs.ALLOW: allow} if allow else None)
    except Exception:
        log.exception("unhandled_error", path=request.path)
        return respond(outcome("unhandled_error"))


def _push_request(request: web.Request) -> PushRequest:
    hosts = request.headers.getall(hdrs.HOST, [])
    return PushRequest(
        authorization=tuple(value for name, value in request.raw_headers if name.lower() == b"authorization"),
        host=hosts[0] if len(hosts) == 1 else "",
        content_encoding=",".join(request.headers.getall(hdrs.CONTENT_ENCODING, ())),
        content_length=request.content_length,
        body=lambda: _body(request),
        at_hand=lambda: _at_hand(request.content),
    )


def _at_hand(content: StreamReader) -> bytes | None:
    return content.read_nowait() if content.is_eof() and content.exception() is None else None


async def _body(request: web.Request) -> AsyncIterator[bytes]:
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    try:
        async for chunk in request.content.iter_any():
            yield chunk
    except (web.RequestPayloadError, ConnectionError) as error:
        raise Refused(f"the body broke off: {error}", code="invalid_push_envelope") from error


async def _expect_nothing_yet(_request: web.Request) -> None:
    """Asks for no body: whether it is wanted is known after the caller is."""


async def _check_store(app: web.Application) -> None:
    """One read. A store that will go on saying no stops the start; one that is away only delays deliveries."""
    deps = app[DEPS]
    try:
        await deps.documents.get(Key(deps.settings.claims_collection, "self-check"))
    except StoreUnavailable as error:
        log.warning("claim_store_unavailable", error=str(error), start="goes on")


async def _say_how(app: web.Application) -> None:
    settings = app[DEPS].settings
    log.info(
        "worker_started",
        workload=str(settings.workload),
        project=settings.project_id,
        subscription=settings.subscription,
        push_auth=str(settings.push_auth),
        push_audience=settings.push_audience or "derived from Host",
        push_service_account=settings.push_service_account,
        claims_collection=settings.claims_collection,
        claim_owner=app[CLAIMS].owner,
        max_delivery_attempts=settings.max_attempts,
        cut_off=settings.cut_off,
        request_timeout=settings.request_timeout.total_seconds(),
        process_timeout=settings.process_timeout.total_seconds(),
        run_timeout=settings.run_timeout.total_seconds(),
    )
    if settings.process_timeout > settings.ack_deadline:
        log.warning("process_timeout_beyond_ack_deadline", ack_deadline=settings.ack_deadline.total_seconds())


async def _close(app: web.Application) -> None:
    await app[DEPS].workload.close()
    await app[DEPS].documents.close()
