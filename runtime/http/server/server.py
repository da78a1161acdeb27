"""The connections of a service, and the life that they share: a listener, a clock, an end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

from runtime.http.server.application import Application
from runtime.http.server.connection import Connection
from runtime.http.server.limits import Limits
from runtime.ports.clock import Clock

BACKLOG: Final = 1024
"""Connections that may wait to be accepted, where the server binds the port itself."""
TURN_SECONDS: Final = 1.0
"""How often the server looks for connections whose patience is over: one look at all costs less than a timer each."""


class Server:
    """Serves an application.

    Args:
        application: what is served, started and closed with the server.
        clock: time.
        limits: of each connection.
        stop_within: seconds from `stop` until connections that are still open are aborted.
        track: told of every task that answers a request: it outlives its connection.
        draining: set when every answer is to be the last of its connection, so that callers turn to another instance.
    """

    def __init__(
        self,
        application: Application,
        clock: Clock,
        *,
        limits: Limits,
        stop_within: float,
        track: Callable[[asyncio.Task[Any]], None],
        draining: asyncio.Event,
    ) -> None:
        self.application = application
        self.limits = limits
        self.date = b""
        self.idle_until = 0
        """Turn at which who is idle from now on has been so for too long."""
        self._clock = clock
        self._stop_within = stop_within
        self._track = track
        self._draining = draining
        self._stopped = False
        self._turn = 0
        self._connections: set[Connection] = set()
        self._gone = asyncio.Event()
        self._listening: asyncio.Server | None = None
        self._turning: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Starts the application; nothing is served yet."""
        await self.application.start()

    async def listen(self, port: int, listener: socket.socket | None = None) -> int:
        """Serves from now on, and returns the port.

        Args:
            port: on all interfaces; 0: any.
            listener: a bound socket to serve on instead.
        """
        self.begin()
        loop = self._loop
        if listener is not None:
            self._listening = await loop.create_server(self.connection, sock=listener, backlog=BACKLOG)
        else:
            self._listening = await loop.create_server(self.connection, "0.0.0.0", port, backlog=BACKLOG)  # noqa: S104 - the platform reaches the container from outside
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Takes no further connection, closes those that are idle, aborts what is left after a while, and closes the
        application. The work on requests is not ended.
        """
        await self.disconnect()
        await self.application.close()

    async def disconnect(self) -> None:
        """The half of `stop` that leaves the application open."""
        self._stopped = True
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.shut()
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(self._stop_within):
                await self._none_left()
        for connection in list(self._connections):
            connection.abort()
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.wait({self._turning})

    def begin(self) -> None:
        """Makes ready for connections, wherever they come from."""
        self._loop = asyncio.get_running_loop()
        self._take_turn()
        self._turning = self._loop.create_task(self._turns(), name="patience of connections")

    # --- for its connections

    def connection(self) -> Connection:
        """A connection that is not made yet."""
        return Connection(self)

    @property
    def ending(self) -> bool:
        """Whether every answer is the last of its connection."""
        return self._stopped or self._draining.is_set()

    def opened(self, connection: Connection) -> None:
        """A connection is made."""
        self._connections.add(connection)

    def closed(self, connection: Connection) -> None:
        """And gone."""
        self._connections.discard(connection)
        self._gone.set()

    def work(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answers a request in a task."""
        self._track(self._loop.create_task(answering, name="request"))

    def turn_after(self, seconds: float) -> int:
        """The turn at which so many seconds are over."""
        return self._turn + 1 + math.ceil(seconds / TURN_SECONDS)

    # ---

    async def _turns(self) -> None:
        while True:
            await self._clock.sleep(TURN_SECONDS)
            self._take_turn()
            for connection in list(self._connections):
                connection.expire(self._turn)

    def _take_turn(self) -> None:
        self._turn += 1
        self.idle_until = self.turn_after(self.limits.idle)
        self.date = f"Date: {self._clock.now():%a, %d %b %Y %H:%M:%S} GMT\r\n".encode()

    async def _none_left(self) -> None:
        while self._connections:
            self._gone.clear()
            await self._gone.wait()
