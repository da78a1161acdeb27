"""A transport without a socket: what was written to it, and whether anybody reads."""

from __future__ import annotations

import asyncio


class FakeTransport(asyncio.Transport):
    """Keeps what is written; its protocol hears of the end a turn later.

    Args:
        protocol: what reads.

    Attributes:
        sent: all of it.
        reading: False while its reader has paused it.
        ended: whether the writing side was closed.
        gone: whether the whole was.
        aborted: whether it was closed without a word.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self.sent = b""
        self.reading = True
        self.ended = self.gone = self.aborted = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        assert not self.gone, "nothing is written to what is closed"
        self.sent += bytes(data)

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        if not self.gone:
            self.gone = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def pause_reading(self) -> None:
        assert self.reading, "it is paused once"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "and resumed once"
        self.reading = True
