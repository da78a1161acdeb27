"""Reading the body of an API request, bounded as every body of the API is."""

from __future__ import annotations

from aiohttp import web

from runtime.contract.limits import API_BODY_BYTES
from runtime.http import body
from runtime.http.body import expect_nothing_yet
from runtime.ports.clock import Clock

__all__ = ["expect_nothing_yet", "read_json_body"]


async def read_json_body(request: web.Request, clock: Clock) -> bytes:
    """The bytes of a body that says it is JSON, at most API_BODY_BYTES of them.

    Raises:
        Problem: see `runtime.http.body.read_json_body`.
    """
    return await body.read_json_body(request, clock, API_BODY_BYTES)
