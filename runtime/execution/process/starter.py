"""The service's side of the fork server: starts it, orders processes, starts it again when it died."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from runtime.contract.errors import Decision, HoldfastError
from runtime.execution.meters import Level
from runtime.execution.process.frames import FORKED
from runtime.execution.process.run_process import Ends, RunProcess, connected_ends
from runtime.ports.clock import Clock

START_SECONDS: Final = 10.0
"""Longest wait for the fork server's answer; the first one includes its imports."""
STOP_SECONDS: Final = 2.0

_WORKING_FOLDER: Final = Path.cwd()

log = structlog.get_logger()


class ProcessUnavailable(HoldfastError):
    """No process could be forked now; the machine is short of something, and another attempt may do better."""

    code = "process_unavailable"
    decision = Decision.RETRY


class ProcessStarter:
    """Starts processes for runs. `start` belongs before the service's first connection; `stop` to its end.

    Args:
        clock: limits the waits.
        environment: variables that user code sees beside the minimal ones. Nothing of the service's own environment
            is passed on.
        alive: counts the processes; None counts nothing.
    """

    def __init__(
        self, clock: Clock, *, environment: Mapping[str, str] | None = None, alive: Level | None = None
    ) -> None:
        self._clock = clock
        self._alive = alive
        self._environment = {**minimal_environment(), **(environment or {})}
        self._lock = asyncio.Lock()
        self._numbers = itertools.count()
        self._server: asyncio.subprocess.Process | None = None
        self._orders: socket.socket | None = None

    @property
    def search_path(self) -> str:
        """Where user code's modules are looked for."""
        return self._environment["PYTHONPATH"]

    async def start(self) -> None:
        """Starts the fork server, if it does not run."""
        async with self._lock:
            await self._running()

    async def stop(self) -> None:
        """Ends the fork server. Processes of runs have their own guards and end with their runs."""
        async with self._lock:
            await self._end()

    async def spawn(self, job: bytes) -> RunProcess:
        """A process with its job, an encoded JSON object; see `child` for its members.

        Raises:
            ProcessUnavailable
        """
        ends = await self._order()
        return await RunProcess.open(self._clock, ends, job, self._alive)

    async def _order(self) -> Ends:
        try:
            ends, theirs = connected_ends()
        except OSError as error:
            raise ProcessUnavailable(f"no channel for a job's process: {error.strerror}") from None
        try:
            async with self._lock:
                await self._ordered(theirs)
        except BaseException:
            ends.close()
            raise
        finally:
            for one in theirs:
                one.close() if isinstance(one, socket.socket) else os.close(one)
        return ends

    async def _ordered(self, theirs: list[int | socket.socket]) -> None:
        for _ in range(2):  # a server that just died is noticed by the first order, and the second one gets its heir
            try:
                async with self._clock.timeout(START_SECONDS):
                    await self._fork(await self._running(), theirs)
            except OSError as error:  # a timeout is one too
                log.warning("fork_server_failed", cause=type(error).__name__)
                await self._end()
            else:
                return
        raise ProcessUnavailable("the fork server does not answer")

    async def _fork(self, orders: socket.socket, theirs: list[int | socket.socket]) -> None:
        # An order carries a number, so that the answer to one that was given up is not taken for the next one's.
        order = bytes([next(self._numbers) % 256])
        socket.send_fds(orders, [order], [one if isinstance(one, int) else one.fileno() for one in theirs])
        loop = asyncio.get_running_loop()
        while True:
            answer = await loop.sock_recv(orders, 2)
            if len(answer) < 2:
                raise ConnectionResetError
            if answer[:1] == order:
                break
        if answer[1:] != FORKED:
            raise ProcessUnavailable("the machine refused to fork a process for the job")

    async def _running(self) -> socket.socket:
        if self._server is not None and self._server.returncode is None and self._orders is not None:
            return self._orders
        await self._end()
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        try:
            self._server = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "runtime.execution.process.forkserver", str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], env=self._environment, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._orders = ours
        return ours

    async def _end(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._server is not None:
            server, self._server = self._server, None
            try:
                async with self._clock.timeout(STOP_SECONDS):
                    await server.wait()
            except TimeoutError:
                server.kill()
                await server.wait()


def minimal_environment() -> dict[str, str]:
    """What every job's process gets: enough to find programs and modules, nothing that names or opens anything."""
    own = (sys.prefix, sys.base_prefix)  # what the interpreter finds by itself
    paths = [str(_WORKING_FOLDER / path) for path in sys.path if not path.startswith(own)]
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONUTF8": "1",
        "TZ": "UTC",
    }
