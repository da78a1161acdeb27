"""An answer, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json; charset=utf-8"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Answer(Struct, frozen=True):
    """One answer. Its head is made once: keep those that are given often.

    Attributes:
        status: HTTP status, final: 200 or more.
        body: "" for 204.
        content_type: of the body; left out where there is none.
        headers: further ones. No value may come from a request.
        last: whether its connection ends with it.
    """

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = MappingProxyType({})
    last: bool = False
    head: bytes = b""
    """Of the answer as it is sent, but for what differs each time; whatever is given here is replaced."""

    def __post_init__(self) -> None:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.status not in _BODILESS:
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        force_setattr(self, "head", "".join(f"{line}\r\n" for line in lines).encode("latin-1"))

    def encoded(self, date: bytes, *, last: bool, headless: bool = False) -> bytes:
        """The bytes that are sent.

        Args:
            date: the Date header's line.
            last: whether to announce the end of the connection.
            headless: the body is left out, its length is not, as in the answer to HEAD.
        """
        end = b"Connection: close\r\n\r\n" if last else b"\r\n"
        return b"".join((self.head, date, end, b"" if headless else self.body))


def plain(status: int, text: str | None = None, **headers: str) -> Answer:
    """A text of ours; None: what the status is called."""
    return Answer(status, (HTTPStatus(status).phrase if text is None else text).encode(), headers=headers)
