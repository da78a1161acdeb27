"""A real HTTP server that keeps what it was sent and answers as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from multidict import CIMultiDictProxy

from sandbox.network import Address


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    path: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


class Endpoint:
    """Answers 204, or whatever `answer` makes of a call; keeps every call in order of arrival."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answer: Callable[[Call], web.StreamResponse] = lambda _: web.Response(status=204)
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        await self._runner.cleanup()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(port=self._runner.addresses[0][1])

    def hold(self) -> None:
        """Leaves every call from now on without an answer."""
        self._open.clear()

    def release(self) -> None:
        """Answers the calls that are held."""
        self._open.set()

    async def received(self, count: int) -> list[Call]:
        """Waits until so many calls have arrived, and returns all of them."""
        async with asyncio.timeout(30):
            while len(self.calls) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.calls

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.path, request.headers, await request.read())
        self.calls.append(call)
        self._arrived.set()
        await self._open.wait()
        return self.answer(call)
