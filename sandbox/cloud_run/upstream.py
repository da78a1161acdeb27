"""Persistent HTTP connections to one instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Final

from aiohttp import ClientConnectionResetError, ClientError
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from aiohttp.streams import StreamReader

from runtime.ports.clock import Clock

BUFFER_BYTES: Final = 256 * 1024
"""Read ahead of a slow caller, per request; beyond it the instance waits."""
HEAD_BYTES: Final = 64 * 1024
IDLE_SECONDS: Final = 60.0
"""Age at which an unused connection is not used again; every server keeps one for longer."""

LOST: Final = (ClientError, HttpProcessingError, OSError)
"""What a request meets when its instance, or its connection, ends, or what comes is no response."""


class NotConnected(Exception):
    """An instance takes no connection; nothing was sent."""


class Exchange:
    """One request and its response on a connection that nothing else uses meanwhile."""

    def __init__(self, connection: ResponseHandler, upstream: Upstream, *, head_only: bool) -> None:
        self._connection = connection
        self._upstream = upstream
        self._upload: asyncio.Task[None] | None = None
        self.body: StreamReader | None = None
        connection.set_response_params(
            skip_payload=head_only,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=BUFFER_BYTES,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
        )

    def send(self, head: bytes, body: bytes = b"") -> None:
        """Sends a whole request."""
        self._transport().write(head + body)

    def send_stream(self, head: bytes, chunks: AsyncIterable[bytes], *, chunked: bool) -> None:
        """Sends a head now and the body as it comes; the response may come before the body ends."""
        self._transport().write(head)
        self._upload = asyncio.create_task(self._send_chunks(chunks, chunked=chunked), name="upload to an instance")

    async def response(self) -> RawResponseMessage:
        """The head of the final response; `body` is then set.

        Raises:
            OSError, ClientError: the connection ended first.
        """
        while True:
            message, body = await self._connection.read()
            if message.code >= 200:
                self.body = body
                return message

    async def close(self) -> None:
        """Gives the connection back where both messages are complete; otherwise ends it, which the instance sees."""
        upload, connection = self._upload, self._connection
        sent = upload is None or (upload.done() and not upload.cancelled() and upload.exception() is None)
        if sent and self.body is not None and self.body.is_eof() and not connection.should_close:
            self._upstream.keep(connection)
        else:
            connection.abort()
        if upload is not None and not upload.done():
            upload.cancel()
            await asyncio.wait({upload})

    async def _send_chunks(self, chunks: AsyncIterable[bytes], *, chunked: bool) -> None:
        writer = StreamWriter(self._connection, asyncio.get_running_loop())
        if chunked:
            writer.enable_chunking()
        try:
            async for chunk in chunks:
                await writer.write(chunk)
            await writer.write_eof()
        except ClientConnectionResetError:
            # The instance reads no more; what it has answered, if anything, says why.
            raise
        except Exception:
            # The caller's body broke off: the instance must not wait for the rest of it.
            self._connection.abort()
            raise

    def _transport(self) -> asyncio.Transport:
        if self._connection.transport is None:
            raise ConnectionResetError("the connection to the instance is closed")
        return self._connection.transport


class Upstream:
    """Connections to the unix socket of one instance.

    Args:
        path: the socket.
        clock: ages unused connections.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._idle: list[tuple[float, ResponseHandler]] = []
        self._closed = False

    async def exchange(self, *, head_only: bool = False) -> Exchange:
        """A free connection.

        Args:
            head_only: True for HEAD, whose response has no body whatever its head says.

        Raises:
            NotConnected: nobody listens.
        """
        fresh = self._clock.monotonic() - IDLE_SECONDS
        while self._idle:
            since, connection = self._idle.pop()
            if since >= fresh and connection.is_connected() and not connection.should_close:
                return Exchange(connection, self, head_only=head_only)
            connection.close()
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(lambda: ResponseHandler(loop), self._path)
        except OSError as error:
            raise NotConnected(f"nobody listens: {type(error).__name__}") from error
        return Exchange(connection, self, head_only=head_only)

    def keep(self, connection: ResponseHandler) -> None:
        """Takes a connection back."""
        if self._closed:
            connection.close()
        else:
            self._idle.append((self._clock.monotonic(), connection))

    def close(self) -> None:
        """Closes what is unused; what is in use closes when it ends."""
        self._closed = True
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
