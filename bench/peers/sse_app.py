"""sse-starlette as its documentation writes it, served by uvicorn with uvloop and httptools."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from bench.peers.events import PAYLOAD, event_text


async def stream(request: Request) -> EventSourceResponse:
    """So many events."""
    count = (await request.json())["payload"]

    async def events() -> AsyncIterator[ServerSentEvent]:
        for number in range(count):
            yield ServerSentEvent(data=event_text(number, PAYLOAD), event="tick", id=f"0123456789ab-{number}")

    return EventSourceResponse(events())


app = Starlette(routes=[Route("/execute/sse", stream, methods=["POST"])])
