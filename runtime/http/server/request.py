"""The head of a request: read at once, when all of it has arrived, and refused where two readers could differ."""

from __future__ import annotations

from typing import Final

import httptools
from msgspec import Struct

from runtime.http.server.body import Body
from runtime.http.server.limits import HEAD_BYTES, HEADERS, LINE_BYTES

_END: Final = b"\r\n\r\n"
_VERSIONS: Final = {b" HTTP/1.1": True, b" HTTP/1.0": False}


class Malformed(Exception):
    """Bytes that are no request, or too many of them.

    Attributes:
        status: of the answer, after which the connection ends.
        kind: what is wrong, a closed word: nothing of what was sent.
    """

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(kind)
        self.status = status
        self.kind = kind


class Request(Struct):
    """One request, whose body may still be on its way.

    Attributes:
        method: upper case.
        path: as sent, nothing decoded, without query; of an absolute address, what stands behind its host.
        fields: the values of each header field by its name in lower case, in the order in which they came.
        persistent: whether the connection may go on after the answer.
        body: what follows the head.
        length: of the body; None where it comes in chunks.
    """

    method: str
    path: bytes
    fields: dict[bytes, list[bytes]]
    persistent: bool
    body: Body
    length: int | None

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Each value of a field, without the blanks around it."""
        return tuple([value.strip(b" \t") for value in self.fields.get(name, ())])

    def text(self, name: bytes) -> str:
        """The values of a field as one; "" where there is none."""
        found = self.fields.get(name)
        return "" if found is None else ",".join(value.decode("latin-1").strip(" \t") for value in found)


def read_request(received: bytes) -> tuple[Request, bytes] | None:
    """A request and the bytes behind it, or behind what has come of its body; None while the head is not complete.

    Raises:
        Malformed
    """
    end = received.find(_END, 0, HEAD_BYTES)
    line = received.find(b"\r\n", 0, LINE_BYTES)
    if line < 0 and len(received) >= LINE_BYTES:
        raise Malformed(414, "line_too_long")
    if end < 0:
        if len(received) >= HEAD_BYTES:
            raise Malformed(431, "head_too_long")
        return None
    http_1_1 = _VERSIONS.get(received[line - 9 : line])
    if http_1_1 is None:
        raise Malformed(400, "not_http_1")
    return _Head().read(received[: end + 4], received[end + 4 :], http_1_1=http_1_1)


class _Head:
    """What httptools calls while it reads a head, and a body in chunks."""

    __slots__ = ("_body", "_count", "_fields", "_keep_alive", "_persistent", "_target")

    def __init__(self) -> None:
        self._target = b""
        self._fields: dict[bytes, list[bytes]] = {}
        self._count = 0
        self._persistent: bool | None = None
        self._body: Body | None = None

    def read(self, head: bytes, rest: bytes, *, http_1_1: bool) -> tuple[Request, bytes]:
        parser = httptools.HttpRequestParser(self)
        self._keep_alive = parser.should_keep_alive
        upgrade = False
        try:
            parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            upgrade = True
        except httptools.HttpParserError as error:
            raise Malformed(400, _kind(error)) from None
        finally:
            del self._keep_alive  # a ring of parser and callbacks would wait for the collector, at each request
        if self._count > HEADERS:
            raise Malformed(431, "too_many_headers")
        if self._persistent is None:
            raise Malformed(400, "not_http_1")
        fields = self._fields
        hosts = fields.get(b"host", ())
        if len(hosts) > 1 or (http_1_1 and not hosts):
            raise Malformed(400, "not_one_host")
        method, path = parser.get_method().decode("ascii"), _path(self._target)
        length: int | None = 0
        if b"transfer-encoding" in fields:
            # Two of them, another coding, or a change of protocol: readers differ in where such a body ends.
            if not http_1_1 or upgrade or fields[b"transfer-encoding"][0].strip(b" \t").lower() != b"chunked":
                raise Malformed(400, "unknown_framing")
            length = None
        elif b"content-length" in fields:
            length = int(fields[b"content-length"][0])
        if length is None:
            self._body = Body(None, parser)
            # What follows a body in chunks cannot be told from it once the parser has it: such a connection ends.
            return Request(method, path, fields, False, self._body, None), self._body.feed(rest) if rest else rest  # noqa: FBT003 - a Struct is made much faster by position
        body = Body(length)
        return Request(method, path, fields, self._persistent and http_1_1, body, length), body.begin(rest)

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._persistent is not None:  # of a trailer: nobody here asked for one
            return
        self._count += 1
        self._fields.setdefault(name.lower(), []).append(value)

    def on_headers_complete(self) -> None:
        self._persistent = self._keep_alive()

    def on_body(self, part: bytes) -> None:
        if self._body is not None:
            self._body.take(part)

    def on_message_complete(self) -> None:
        if self._body is not None:
            self._body.end()


def _path(target: bytes) -> bytes:
    if target.startswith(b"/"):
        return target.partition(b"?")[0]
    if target == b"*":
        return target
    try:
        return httptools.parse_url(target).path or b"/"
    except httptools.HttpParserInvalidURLError:
        raise Malformed(400, "no_target") from None


def _kind(error: httptools.HttpParserError) -> str:
    return type(error).__name__.removeprefix("HttpParser")
