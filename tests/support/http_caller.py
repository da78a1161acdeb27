"""A caller of the HTTP server without a socket, and an application that does what a test says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

from runtime.adapters.clock import ManualClock
from runtime.http.server.answer import Answer, plain
from runtime.http.server.limits import Limits
from runtime.http.server.request import Request
from runtime.http.server.server import Server
from tests.support.fake_transport import FakeTransport

Reply = Answer | Coroutine[Any, Any, Answer]


class ScriptedApplication:
    """Answers by its path at once, or as told.

    Attributes:
        reply: makes the answer to a request.
        seen: every request.
        kinds: every fault in what was no request.
        errors: everything that `reply` raised.
    """

    def __init__(self) -> None:
        self.reply: Callable[[Request], Reply] = lambda request: plain(200, request.path.decode("latin-1"))
        self.seen: list[Request] = []
        self.kinds: list[str] = []
        self.errors: list[BaseException] = []

    def handle(self, request: Request) -> Reply:
        self.seen.append(request)
        return self.reply(request)

    def surprised(self, error: BaseException) -> Answer:
        self.errors.append(error)
        return plain(503, "surprise")

    def malformed(self, status: int, kind: str) -> Answer:
        self.kinds.append(kind)
        return plain(status, "malformed")

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Ground:
    """A server on a clock that a test moves."""

    def __init__(self, **limits: float) -> None:
        self.clock = ManualClock()
        self.application = ScriptedApplication()
        self.draining = asyncio.Event()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.server = Server(
            self.application,
            self.clock,
            limits=Limits(**limits),
            stop_within=1,
            track=self.tasks.add,
            draining=self.draining,
        )
        self.server.begin()
        self._callers: list[Caller] = []

    def call(self, *sent: bytes) -> Caller:
        """A new connection that has sent something."""
        caller = Caller(self.server)
        self._callers.append(caller)
        for part in sent:
            caller.send(part)
        return caller

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        for caller in self._callers:
            caller.hang_up()
        await self.server.disconnect()


class Caller:
    """One connection, from its far end."""

    def __init__(self, server: Server) -> None:
        self.connection = server.connection()
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """Arrives where the other side reads."""
        assert self.transport.reading, "nobody reads"
        if not self.transport.gone:
            self.connection.data_received(data)

    def end(self) -> None:
        """Sends no more, and goes where the other side does not hold it."""
        if not self.connection.eof_received():
            self.hang_up()

    def hang_up(self) -> None:
        self.transport.close()

    @property
    def sent(self) -> bytes:
        """What it was answered, without dates."""
        return re.sub(rb"Date: [^\r]*\r\n", b"", self.transport.sent)

    @property
    def statuses(self) -> list[int]:
        """Of every answer."""
        return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", self.transport.sent)]

    @property
    def closed(self) -> bool:
        """Whether there will be no further answer."""
        return self.transport.gone or self.transport.ended
