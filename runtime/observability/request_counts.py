"""Counts the requests of an application on aiohttp, each once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from runtime.observability.metrics import UNMATCHED, Metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

METRICS: Final = web.AppKey("metrics", Metrics)
"""Where an application has what its server counts beside its handlers."""


def count_requests(metrics: Metrics) -> Middleware:
    """A middleware that counts every request once, with the status that was really sent."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        status = 499  # left so when the handler is cancelled: the caller went away
        metrics.requests_in_flight.inc()
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as error:
            status = error.status
            raise
        except Exception:
            status = 500
            raise
        else:
            return response
        finally:
            metrics.requests_in_flight.dec()
            metrics.answered(matched_route(request), request.method, status)

    return middleware


def matched_route(request: web.Request) -> str:
    """The pattern that a request matched, or `unmatched`: a closed word, however the path is spelled."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else UNMATCHED
