"""A span around each request, as a child of what its caller says it belongs to."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from runtime.contract.names import HEALTH, HEALTH_LIVE, HEALTH_READY, METRICS
from runtime.contract.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from runtime.observability.request_counts import Handler, matched_route
from runtime.ports.tracing import SpanKind, Tracing

_UNTRACED: Final = frozenset({HEALTH, HEALTH_LIVE, HEALTH_READY, METRICS})
"""Asked every few seconds for as long as the service lives."""


def trace_requests(tracing: Tracing) -> Middleware:
    """A middleware that makes each request a span, named by its route. Inside it, errors have become answers."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _UNTRACED:
            return await handler(request)
        parent = TraceContext.read(request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE))
        route = matched_route(request)
        attributes = {"http.request.method": request.method, "http.route": route}
        with tracing.span(route, SpanKind.SERVER, parent=parent, attributes=attributes) as span:
            response = await handler(request)
            span.set("http.response.status_code", response.status)
            if response.status >= 500:
                span.fail(str(response.status))
            return response

    return middleware
