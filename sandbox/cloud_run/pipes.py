"""The output of a process: ends for it to write to, streams for us to read.

asyncio's own pipes are not used: with them, the end of a process is not told before everything that it has started
has closed the pipes as well.
"""

from __future__ import annotations

import asyncio
import os
from typing import Self

from sandbox.cloud_run.logs import LINE_BYTES


class Pipe:
    """One pipe.

    Attributes:
        reader: what comes out of it; ends when the last process that may write has ended.
        write_fd: for the process that writes; `handed_on` closes ours.
    """

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, write_fd: int) -> None:
        self.reader = reader
        self.write_fd = write_fd
        self._transport = transport
        self._handed_on = False

    @classmethod
    async def open(cls) -> Self:
        """A new pipe; its write end is inherited by no process that is not given it."""
        read_fd, write_fd = os.pipe()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        try:
            transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", buffering=0)
            )
        except BaseException:
            os.close(write_fd)
            raise
        return cls(reader, transport, write_fd)

    def handed_on(self) -> None:
        """The process has its own write end now."""
        if not self._handed_on:
            self._handed_on = True
            os.close(self.write_fd)

    def close(self) -> None:
        """Reads no more."""
        self.handed_on()
        self._transport.close()
