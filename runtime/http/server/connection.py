"""One connection: requests in, in order, one at a time, and an answer to each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from runtime.http.server.answer import CONTINUE, Answer
from runtime.http.server.body import Body
from runtime.http.server.limits import HELD_BYTES
from runtime.http.server.request import Malformed, Request, read_request

if TYPE_CHECKING:
    from runtime.http.server.server import Server


class Connection(asyncio.Protocol):
    """Reads no further than it has to: not while a request is answered, nor a body before somebody wants it.

    Args:
        server: what it belongs to.
    """

    __slots__ = (
        "_arriving", "_choked", "_due", "_ended", "_lingering", "_paused", "_received", "_request", "_server",
        "_transport",
    )  # fmt: skip

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._request: Request | None = None
        """The one that is being answered."""
        self._arriving: Body | None = None
        """Its body, where there is more to come of it."""
        self._due = 0
        """Turn of the server at which patience ends; 0: never, because somebody is at work."""
        self._paused = self._choked = self._ended = self._lingering = False

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)
        self._due = self._server.idle_until

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol. Work on a request goes on; only a body that was not whole is over."""
        del exc
        self._transport = None
        self._received = b""
        if self._arriving is not None:
            self._arriving.fail("the caller has gone")
        self._server.closed(self)

    def eof_received(self) -> bool:
        """See asyncio.Protocol. Who has sent all that it will may still wait for an answer."""
        self._ended = True
        if self._arriving is not None:
            self._arriving.fail("the caller sends no more")
        return self._request is not None

    def pause_writing(self) -> None:
        """See asyncio.Protocol. Nothing more is answered to who does not take its answers."""
        self._choked = True
        self._due = self._server.turn_after(self._server.limits.head)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._choked = False
        self._due = 0 if self._request is not None else self._server.idle_until
        self._advance()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        body = self._arriving
        if self._lingering:
            return
        if body is not None:
            self._received = body.feed(data)
            if body.whole:
                self._arriving = None
            elif body.held > HELD_BYTES:
                self._pause()
        elif self._request is not None:
            self._received += data
            self._pause()
        else:
            self._received = self._received + data if self._received else data
            self._advance()

    # --- what the server calls

    def expire(self, turn: int) -> None:
        """Ends the connection where its patience is over."""
        if not self._due or turn < self._due or self._transport is None:
            return
        if self._transport.is_closing() or self._lingering or self._choked:
            self._transport.abort()
        elif self._received:
            self._refuse(Malformed(408, "head_too_slow"))
        else:
            self._close()

    def shut(self) -> None:
        """No further request: closes at once, or after the answer that is being made or read."""
        if self._request is None and not self._lingering:
            self._close()

    def abort(self) -> None:
        """Closes at once. The work on a request goes on."""
        if self._transport is not None:
            self._transport.abort()

    # --- requests

    def _advance(self) -> None:
        """Begins with the next request, where all of its head is there."""
        while self._request is None and self._transport is not None and not self._choked and not self._lingering:
            received = self._received = self._received.lstrip(b"\r\n") if self._received else b""
            try:
                found = read_request(received) if received else None
            except Malformed as error:
                self._refuse(error)
                return
            if found is None:
                if self._ended:
                    self._close()
                elif received and self._due > (due := self._server.turn_after(self._server.limits.head)):
                    self._due = due
                self._resume()
                return
            self._begin(*found)

    def _begin(self, request: Request, rest: bytes) -> None:
        self._request, self._due = request, 0
        body = request.body
        self._received = rest
        if not body.whole:
            self._arriving = body
            body.on_wanted = self._wanted
            self._pause()
        try:
            answer = self._server.application.handle(request)
        except Exception as error:  # noqa: BLE001 - the application says what a surprise is
            answer = self._server.application.surprised(error)
        if isinstance(answer, Answer):
            self._answer(request, answer)
        else:
            self._server.work(self._work(request, answer))

    async def _work(self, request: Request, working: Coroutine[Any, Any, Answer]) -> None:
        try:
            answer = await working
        except asyncio.CancelledError as error:
            self._answer(request, self._server.application.surprised(error))
            raise
        except Exception as error:  # noqa: BLE001 - the application says what a surprise is
            answer = self._server.application.surprised(error)
        self._answer(request, answer)
        if self._received or self._paused or self._ended:
            self._advance()

    def _answer(self, request: Request, answer: Answer) -> None:
        self._request = None
        if self._transport is None:
            return
        last = (
            answer.last
            or not request.persistent
            or self._arriving is not None
            or self._server.ending
            or (self._ended and not self._received)
        )
        self._transport.write(answer.encoded(self._server.date, last=last, headless=request.method == "HEAD"))
        if last:
            self._finish()
        elif not self._choked:
            self._due = self._server.idle_until

    def _refuse(self, error: Malformed) -> None:
        if self._transport is not None:
            answer = self._server.application.malformed(error.status, error.kind)
            self._transport.write(answer.encoded(self._server.date, last=True))
            self._finish()

    def _wanted(self) -> None:
        request, body = self._request, self._arriving
        if request is None or body is None or self._transport is None:
            return
        if b"expect" in request.fields and request.text(b"expect").lower() == "100-continue":
            del request.fields[b"expect"]
            if request.persistent or request.length is None:
                self._transport.write(CONTINUE)
        self._resume()

    # --- the end

    def _finish(self) -> None:
        """After the last answer: what still arrives is thrown away for a moment, so that the caller reads the answer
        before it hears that nobody listens.
        """
        linger, transport = self._server.limits.linger, self._transport
        self._received = b""
        if transport is None:
            return
        if self._ended or linger <= 0 or not transport.can_write_eof():
            self._close()
            return
        if self._arriving is not None:
            self._arriving.drop()
            self._arriving = None
        self._lingering = True
        self._due = self._server.turn_after(linger)
        transport.write_eof()
        self._resume()

    def _close(self) -> None:
        self._due = self._server.turn_after(self._server.limits.linger)
        if self._transport is not None:
            self._transport.close()

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
