"""The service's side of one run's process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from functools import partial
from typing import IO, Final, Self

import structlog
from msgspec import Struct

from runtime.execution.meters import Level
from runtime.execution.process.frames import (
    KILL,
    LENGTH,
    STATUS,
    TERMINATE,
    Frame,
    FrameBroken,
    read_frame,
    read_length,
)
from runtime.execution.tasks import end, first_done, settled
from runtime.ports.clock import Clock
from runtime.ports.engine import EngineStillRunning

TERM_GRACE_SECONDS: Final = 2.0
"""From SIGTERM to SIGKILL: a drain has ten seconds for everything."""
CONFIRM_SECONDS: Final = 5.0
"""Longest wait for the kernel to end what was killed; only a process stuck in the kernel takes longer."""
_BUFFER: Final = 64 * 1024

log = structlog.get_logger()


class Ends(Struct, frozen=True):
    """The service's ends of what a process was given, before they are put on the loop."""

    guard: socket.socket
    job: IO[bytes]
    frames: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def close(self) -> None:
        """Gives them up; the guard takes it as the order to kill."""
        for one in (self.guard, self.job, self.frames, self.stdout, self.stderr):
            one.close()


class RunProcess:
    """A process that was forked, and everything that is needed to talk to it and to be sure of its end.

    `open` makes one; `destroy` must be called on every path.
    """

    def __init__(
        self, clock: Clock, ends: Ends, guard: tuple[asyncio.StreamReader, asyncio.StreamWriter], alive: Level | None
    ) -> None:
        self._clock = clock
        self._alive = alive
        self._transports: list[asyncio.BaseTransport] = []
        self._loose = [ends.job, ends.frames, ends.stdout, ends.stderr]
        status, self._guard = guard
        self._gone = asyncio.create_task(_read_status(status))
        self._frames, self.stdout, self.stderr = (asyncio.StreamReader(limit=_BUFFER) for _ in range(3))
        if alive is not None:
            alive.inc()

    @classmethod
    async def open(cls, clock: Clock, ends: Ends, job: bytes, alive: Level | None = None) -> Self:
        """Puts a process's ends on the loop and hands it its job."""
        try:
            guard = await asyncio.open_unix_connection(sock=ends.guard)
        except BaseException:
            ends.close()
            raise
        process = cls(clock, ends, guard, alive)
        try:
            await process._connect(job)
        except BaseException:
            await process.destroy()
            raise
        return process

    async def frame(self) -> Frame | None:
        """The next frame; None where the process has closed its channel.

        Raises:
            FrameBroken
        """
        try:
            length = read_length(await self._frames.readexactly(LENGTH.size))
            return read_frame(await self._frames.readexactly(length))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise FrameBroken("the channel ended inside a frame") from None
            return None

    async def gone(self) -> int | None:
        """Waits until the process and all its descendants are gone; how it ended, None where its guard was killed."""
        return await asyncio.shield(self._gone)

    async def terminate(self) -> None:
        """SIGTERM, then SIGKILL, and returns when nothing is left."""
        self._order(TERMINATE)
        if not await first_done(self._clock, TERM_GRACE_SECONDS, self._gone):
            await self._kill()

    async def destroy(self) -> None:
        """Kills what is left and releases everything; a cancellation of the caller does not cut it short.

        Raises:
            EngineStillRunning: its end is not confirmed; also in place of a cancellation.
        """
        cleanup = asyncio.create_task(self._destroy())
        try:
            await settled(cleanup)
        finally:
            cleanup.result()

    async def _destroy(self) -> None:
        await self._kill()
        confirmed = self._gone.done()
        await end(self._gone)
        self._guard.close()
        for transport in self._transports:
            transport.close()
        for pipe in self._loose:
            pipe.close()
        if self._alive is not None and confirmed:
            self._alive.dec()
        # Transports report their end in the loop's next turn.
        await asyncio.sleep(0)
        if not confirmed:
            raise EngineStillRunning(f"the job's process was killed, and still lives after {CONFIRM_SECONDS:g} s")

    async def _kill(self) -> None:
        self._order(KILL)
        if not await first_done(self._clock, CONFIRM_SECONDS, self._gone):
            log.error("process_end_unconfirmed", seconds=CONFIRM_SECONDS)

    def _order(self, order: bytes) -> None:
        if not self._gone.done():
            self._guard.write(order)

    async def _connect(self, job: bytes) -> None:
        loop = asyncio.get_running_loop()
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._loose.pop(0))
        self._transports.append(writer)
        writer.write(job)
        writer.write_eof()
        for stream in (self._frames, self.stdout, self.stderr):
            reader, _ = await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, stream), self._loose.pop(0))
            self._transports.append(reader)


async def _read_status(guard: asyncio.StreamReader) -> int | None:
    try:
        return int(STATUS.unpack(await guard.readexactly(STATUS.size))[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def describe_end(status: int | None) -> str:
    """How a process ended that gave no result, for the run's error."""
    if status is None:
        return "the job's process was killed from outside"
    if status >= 0:
        return f"the job's process exited with code {status} before it returned"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = "; the most common cause is memory" if status == -signal.SIGKILL else ""
    return f"the job's process was ended by {name} before it returned{hint}"


def connected_ends() -> tuple[Ends, list[int | socket.socket]]:
    """New channels: the service's ends, and those of the process in the order that the fork server expects.

    Raises:
        OSError: there are not descriptors enough; none is left open.
    """
    with contextlib.ExitStack() as undo:
        ours, theirs = socket.socketpair()
        undo.callback(theirs.close)
        undo.callback(ours.close)
        ours.settimeout(0)
        pipes = []
        for _ in range(4):
            pipes.append(os.pipe())
            undo.callback(os.close, pipes[-1][0])
            undo.callback(os.close, pipes[-1][1])
        (job_read, job_write), *outward = pipes
        ends = Ends(
            ours,
            os.fdopen(job_write, "wb", buffering=0),
            *(os.fdopen(read, "rb", buffering=0) for read, _ in outward),
        )
        undo.pop_all()
        return ends, [theirs, job_read, *(write for _, write in outward)]
