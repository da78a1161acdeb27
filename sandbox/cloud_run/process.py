"""The process of an instance, from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol, Self

from sandbox.cloud_run.line import Line, Order

LAUNCH: Final = (sys.executable, "-P", "-m", "sandbox.cloud_run.launch")
"""Starts a role; its arguments are the role and the number of the inherited socket. `-P` keeps the working folder,
which is the instance's own, out of the import path."""


class Child(Protocol):
    """A started process. Its streams end when the last process that holds them ends."""

    @property
    def pid(self) -> int:
        """Process id; also the id of its process group."""
        ...

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def wait(self) -> int:
        """Its exit code, negative for a signal. May be awaited more than once."""
        ...

    def close(self) -> None:
        """Closes the socket to the process, which ends it where it still runs."""
        ...


class Launcher(Protocol):
    """Starts processes, while it is entered."""

    async def __aenter__(self) -> Self:
        """Gets ready."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Ends whatever it keeps for itself; what it has started belongs to the caller."""
        ...

    async def launch(self, order: Order) -> Child:
        """Starts one; returns before it serves.

        Raises:
            OSError: it could not be started.
        """
        ...


class Spawned:
    """A process of its own interpreter."""

    def __init__(self, process: asyncio.subprocess.Process, line: Line) -> None:
        self._process = process
        self._line = line
        self.stdout = line.stdout.reader
        self.stderr = line.stderr.reader

    @property
    def pid(self) -> int:
        """See Child."""
        return self._process.pid

    async def wait(self) -> int:
        """See Child."""
        return await self._process.wait()

    def close(self) -> None:
        """See Child."""
        self._line.close()


class SpawnLauncher:
    """Starts a fresh interpreter for every instance.

    Args:
        command: before role and socket number.
    """

    def __init__(self, command: Sequence[str] = LAUNCH) -> None:
        self._command = tuple(command)

    async def __aenter__(self) -> Self:
        """See Launcher."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """See Launcher."""

    async def launch(self, order: Order) -> Child:
        """See Launcher."""
        line = await Line.open()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                order.config.role,
                str(line.theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=line.stdout.write_fd,
                stderr=line.stderr.write_fd,
                pass_fds=(line.theirs.fileno(),),
                env=dict(order.environment),
                cwd=order.folder,
                start_new_session=True,
            )
        except BaseException:
            line.close()
            raise
        line.handed_on()
        try:
            await line.send(order)
        except BaseException:
            line.close()
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return Spawned(process, line)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signals a process and everything that it started, where any of it is still there."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def signal_process(pid: int, number: signal.Signals) -> None:
    """Signals one process where it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
