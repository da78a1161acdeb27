"""Carries one request to an instance and its response back, both as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from sandbox.cloud_run.admission import Admitted
from sandbox.cloud_run.upstream import Exchange

_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect".split()
)
"""Headers that concern one connection only (RFC 9110, 7.6.1), and `Expect`, which the front answers itself."""
_SET_BY_FRONT: Final = frozenset(b"host x-forwarded-for x-forwarded-proto".split())
_BODILESS: Final = frozenset({204, 304})


class Passage:
    """One request on its way through the front.

    Args:
        request: from the caller.
        host: what the service sees as its own.
        admitted: what the invoker check made of the caller.

    Attributes:
        begun: whether the caller has been sent the head of a response, so that no other can follow.
    """

    def __init__(self, request: web.BaseRequest, host: str, admitted: Admitted) -> None:
        self._request = request
        self._host = host
        self._admitted = admitted
        self.begun = False

    async def through(self, exchange: Exchange) -> web.StreamResponse:
        """Sends the request on and the response back.

        Raises:
            OSError, ClientError: the instance or its connection ended before the response did.
        """
        self._send(exchange)
        message = await exchange.response()
        headers = _response_headers(message)
        body = exchange.body
        if self._request.method == "HEAD" or message.code in _BODILESS:
            return await self._stream(message, headers, None)
        if body is not None and not body.is_eof():
            return await self._stream(message, headers, body)
        # All here already: one write.
        headers.pop("Content-Length", None)
        content = b"" if body is None else await body.read()
        return web.Response(status=message.code, reason=message.reason, headers=headers, body=content)

    def _send(self, exchange: Exchange) -> None:
        request, head = self._request, self._head()
        chunked = "Content-Length" not in request.headers
        if not request.body_exists:
            exchange.send(head)
        elif request.content.is_eof() and not chunked:
            exchange.send(head, request.content.read_nowait())
        else:
            if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            exchange.send_stream(head, _chunks(request.content), chunked=chunked)

    def _head(self) -> bytes:
        request = self._request
        # The absolute form of a target is for proxies; an origin server is asked for the path alone.
        path = request.raw_path if request.raw_path.startswith("/") else request.rel_url.raw_path_qs
        dropped = _HOP_BY_HOP | _SET_BY_FRONT | _named_by_connection(request.headers.get("Connection"))
        checked = self._admitted.header.lower().encode()
        lines = [f"{request.method} {path} HTTP/1.1".encode(), b"Host: " + self._host.encode()]
        for name, value in request.raw_headers:
            lowered = name.lower()
            if lowered == checked:
                lines.append(name + b": " + self._admitted.value.encode())
            elif lowered not in dropped:
                lines.append(name + b": " + value)
        came_from = [*request.headers.getall("X-Forwarded-For", ()), request.remote or "127.0.0.1"]
        lines.append(b"X-Forwarded-For: " + ", ".join(came_from).encode())
        lines.append(b"X-Forwarded-Proto: https")
        if request.body_exists and "Content-Length" not in request.headers:
            lines.append(b"Transfer-Encoding: chunked")
        return b"\r\n".join([*lines, b"", b""])

    async def _stream(
        self, message: RawResponseMessage, headers: CIMultiDict[str], body: StreamReader | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=message.code, reason=message.reason, headers=headers)
        self.begun = True
        await response.prepare(self._request)
        while body is not None and (chunk := await body.readany()):
            await response.write(chunk)
        await response.write_eof()
        return response


async def _chunks(content: StreamReader) -> AsyncIterator[bytes]:
    while chunk := await content.readany():
        yield chunk


def _response_headers(message: RawResponseMessage) -> CIMultiDict[str]:
    dropped = _HOP_BY_HOP | _named_by_connection(message.headers.get("Connection"))
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in message.raw_headers:
        if name.lower() not in dropped:
            headers.add(name.decode(), value.decode("utf-8", "surrogateescape"))
    return headers


def _named_by_connection(header: str | None) -> frozenset[bytes]:
    return frozenset(name.strip().lower().encode() for name in header.split(",")) if header else frozenset()
