"""An executor that answers as a test says: each call with the next script, and every later one with the last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedExecutor:
    """Serves scripts; use as an asynchronous context manager.

    Attributes:
        jobs: what was sent, in order.
        requests: the calls.
    """

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self.jobs: list[dict[str, Any]] = []
        self.requests: list[web.BaseRequest] = []
        self.port = 0
        self._called = asyncio.Event()

    async def called(self) -> list[dict[str, Any]]:
        """The jobs, once there is one."""
        await self._called.wait()
        return self.jobs

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.jobs.append(await request.json())
        self._called.set()
        return await self._scripts[min(len(self.jobs), len(self._scripts)) - 1](request)


def event(event_type: str, payload: object) -> bytes:
    """An event as an executor sends it."""
    data = json.dumps({"event_id": "e-1", "event_type": event_type, "payload": payload, "timestamp": "t"})
    return f"id: e-1\nevent: {event_type}\ndata: {data}\n\n".encode()


def problem(status: int, code: str | None) -> Script:
    """A refusal: the executor's own, or without a code the platform's."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        if code is None:
            return web.Response(status=status, text="<html>no</html>", content_type="text/html")
        return web.json_response({"code": code, "detail": "because"}, status=status)

    return answer


def stream(*parts: bytes, ends: bool = True) -> Script:
    """A stream of parts, which ends cleanly, or is broken off."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        if not ends:
            await asyncio.sleep(0.05)  # so that what was written is on its way
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Breaks the connection off without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
