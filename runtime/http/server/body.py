"""The body of a request while it arrives: held within bounds, and read from the socket only when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import httptools

from runtime.http.server.limits import HEAD_BYTES

FRAMING_BYTES: Final = HEAD_BYTES
"""Most bytes in a row of a body in chunks that are not of the body itself: sizes, extensions, trailers."""


class BodyBroken(ConnectionError):
    """The rest of a body will never come."""


class Body:
    """A body whose bytes the connection feeds in and one reader takes out.

    Args:
        length: how many bytes there are; None where `chunks` tells.
        chunks: the parser that has read the head, for a body in chunks: it calls `take` and `end`.
    """

    __slots__ = (
        "_broken",
        "_chunked",
        "_chunks",
        "_framing",
        "_held",
        "_left",
        "_waiting",
        "held",
        "on_wanted",
        "whole",
    )

    def __init__(self, length: int | None, chunks: httptools.HttpRequestParser | None = None) -> None:
        self._left = length or 0
        self._chunks = chunks
        self._chunked = chunks is not None
        self._framing = 0
        self._held: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None
        self._broken: BodyBroken | None = None
        self.held = 0
        """Bytes that nobody has taken yet."""
        self.whole = length == 0
        """Whether all of it has arrived."""
        self.on_wanted: Callable[[], None] = _nobody
        """Called when the reader has nothing and would have more."""

    def begin(self, received: bytes) -> bytes:
        """`feed` for what came with the head: most bodies are whole with it."""
        if self.whole or not received:
            return received
        if len(received) != self._left:
            return self.feed(received)
        self._held.append(received)
        self.held = self._left
        self.whole = True
        return b""

    def feed(self, received: bytes) -> bytes:
        """Takes what is its own, and returns the rest."""
        if self._chunked:
            self._parse(received)
            return b""
        part, rest = received[: self._left], received[self._left :]
        self._left -= len(part)
        self.take(part)
        if not self._left:
            self.end()
        return rest

    def take(self, part: bytes) -> None:
        """Adds bytes to those that wait for the reader."""
        self._framing = 0
        if self._broken is None:
            self._held.append(part)
            self.held += len(part)
            self._wake()

    def end(self) -> None:
        """All of it has arrived."""
        self.whole = True
        self._chunks = None
        self._wake()

    def drop(self) -> None:
        """Forgets what waits."""
        self._held.clear()
        self.held = 0

    def fail(self, reason: str) -> None:
        """Nothing more will arrive. Changes nothing where all of it has."""
        if not self.whole and self._broken is None:
            self._broken = BodyBroken(reason)
            self._chunks = None
            self._wake()

    @property
    def broken(self) -> bool:
        """Whether the rest of it will never come."""
        return self._broken is not None

    def at_hand(self) -> bytes | None:
        """The whole body, taken, where all of it has arrived already."""
        return self._taken() if self.whole else None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, piece by piece.

        Raises:
            BodyBroken
        """
        while True:
            if self._held:
                yield self._taken()
            elif self.whole:
                return
            elif self._broken is not None:
                raise self._broken
            else:
                self._waiting = asyncio.get_running_loop().create_future()
                self.on_wanted()
                await self._waiting

    def _taken(self) -> bytes:
        taken = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self.drop()
        return taken

    def _parse(self, received: bytes) -> None:
        chunks = self._chunks
        if chunks is None:
            return
        self._framing += len(received)
        try:
            chunks.feed_data(received)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.fail("no chunk")
        if self._framing > FRAMING_BYTES:
            self.fail("chunks without content")

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _nobody() -> None:
    """Nothing to ask."""
