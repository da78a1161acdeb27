"""Starts instances from one process that has imported every role: many times faster than an interpreter for each."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final, Self

import structlog

from runtime.adapters.clock import SystemClock
from runtime.ports.clock import Clock
from sandbox.cloud_run.framing import send_frame
from sandbox.cloud_run.line import Line, Order
from sandbox.cloud_run.process import Child, Launcher, SpawnLauncher

log = structlog.get_logger()

FORK_SERVER: Final = (sys.executable, "-P", "-m", "sandbox.cloud_run.fork_server")
ROLES: Final = "sandbox.wiring"
PRELOAD: Final = (
    "grpc.aio",
    "runtime.adapters.pubsub",
    "runtime.api.app",
    "runtime.execution.registry",
    "runtime.executor.app",
    "runtime.executor.opened",
    "runtime.identity.job_token",
    "runtime.identity.keys",
    "runtime.worker.app",
    "runtime.worker.workloads.execution",
)
"""What the roles import when they start."""
READ_AT_START: Final = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
    "MALLOC_",
    "GLIBC_",
    "OPENSSL_",
    "SSL_",
    "GRPC_",
    "AIOHTTP_",
)
"""Begins of variables that an interpreter or a library reads before any code of a role runs. A service that declares
one gets an interpreter of its own."""
_FORK_SECONDS: Final = 60.0
"""For the first fork this includes the imports."""
_END_SECONDS: Final = 5.0


class ForkedChild:
    """A process that the fork server has started."""

    def __init__(self, pid: int, ended: asyncio.Future[int], line: Line) -> None:
        self._pid = pid
        self._ended = ended
        self._line = line
        self.stdout = line.stdout.reader
        self.stderr = line.stderr.reader

    @property
    def pid(self) -> int:
        """See Child."""
        return self._pid

    async def wait(self) -> int:
        """See Child."""
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """See Child."""
        self._line.close()


class ForkLauncher:
    """Starts instances by forking; falls back to fresh interpreters where a fork would not do, or no longer works.

    Args:
        roles: module with `run_role`.
        preload: further modules to import before the first fork.
        fallback: None means the product's launch command.
        clock: bounds the waits for the server; None means the system's.
    """

    def __init__(
        self,
        roles: str = ROLES,
        preload: Sequence[str] = PRELOAD,
        fallback: Launcher | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._modules = (roles, *preload)
        self._fallback = fallback or SpawnLauncher()
        self._clock = clock or SystemClock()
        self._numbers = itertools.count(1)
        self._started: dict[int, asyncio.Future[int]] = {}
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._sending = asyncio.Lock()
        self._control: socket.socket | None = None
        self._server: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """See Launcher. Imports go on meanwhile; the first start waits for them."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.settimeout(0)
            try:
                self._server = await asyncio.create_subprocess_exec(
                    *FORK_SERVER,
                    str(theirs.fileno()),
                    *self._modules,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={},
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._control = ours
        self._reader = asyncio.create_task(self._read(ours), name="reports of the fork server")
        return self

    async def __aexit__(self, *error: object) -> None:
        """See Launcher."""
        if self._control is not None:
            # Half closed: the server sees its end, and the reports of what it still has to tell arrive.
            self._control.shutdown(socket.SHUT_WR)
        if self._server is not None:
            try:
                async with self._clock.timeout(_END_SECONDS):
                    await self._server.wait()
            except TimeoutError:
                self._server.kill()
                await self._server.wait()
        if self._reader is not None:
            await self._reader

    async def launch(self, order: Order) -> Child:
        """See Launcher."""
        control = self._control
        if control is None or any(name.startswith(READ_AT_START) for name in order.environment):
            return await self._fallback.launch(order)
        number, line = next(self._numbers), await Line.open()
        loop = asyncio.get_running_loop()
        self._started[number], self._ended[number] = loop.create_future(), loop.create_future()
        try:
            body = {"number": number, "role": order.config.role, "folder": str(order.folder)}
            descriptors = [line.theirs.fileno(), line.stdout.write_fd, line.stderr.write_fd]
            async with self._clock.timeout(_FORK_SECONDS):
                async with self._sending:
                    await send_frame(control, body, descriptors)
                line.handed_on()
                pid = await self._started[number]
                await line.send(order)
        except BaseException:
            # A process that exists, or comes to exist, ends with its line.
            line.close()
            raise
        return ForkedChild(pid, self._ended[number], line)

    async def _read(self, control: socket.socket) -> None:
        loop, buffer = asyncio.get_running_loop(), b""
        try:
            while part := await loop.sock_recv(control, 65536):
                *lines, buffer = (buffer + part).split(b"\n")
                for row in map(json.loads, lines):
                    self._heard(row)
        except ConnectionError:
            pass
        finally:
            self._control = None
            control.close()
            self._lost()

    def _heard(self, row: dict[str, int]) -> None:
        number = row["number"]
        if "pid" in row:
            waiting, value = self._started.pop(number), row["pid"]
        else:
            waiting, value = self._ended.pop(number), row["exit"]
        if not waiting.done():
            waiting.set_result(value)

    def _lost(self) -> None:
        """The server has ended, and everything that it had started with it."""
        if self._started or self._ended:
            log.warning("fork_server_lost", instances=len(self._ended))
        for waiting in self._started.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the fork server has ended"))
        for waiting in self._ended.values():
            if not waiting.done():
                waiting.set_result(-signal.SIGKILL)
        self._started.clear()
        self._ended.clear()


def default_launcher() -> Launcher:
    """Forks where that is safe; macOS's own libraries may not be used after a fork."""
    return ForkLauncher() if sys.platform == "linux" and hasattr(os, "fork") else SpawnLauncher()
