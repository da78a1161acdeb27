"""A push request as the delivery sees it: no framework, no socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError


class PushRequest(Struct, frozen=True, kw_only=True):
    """One `POST /`.

    Attributes:
        authorization: raw value of each Authorization header.
        host: value of the Host header; "" where there is none.
        content_encoding: value of the Content-Encoding header; "" where there is none.
        content_length: None where the sender did not say, as in a chunked request.
        body: begins to read the body; nothing is read before it is called.
        at_hand: the whole body, taken, where all of it has arrived already; None where it has to be read.
    """

    authorization: tuple[bytes, ...]
    host: str = ""
    content_encoding: str = ""
    content_length: int | None = None
    body: Callable[[], AsyncIterator[bytes]]
    at_hand: Callable[[], bytes | None] = lambda: None


class Refused(HoldfastError):
    """A request that gets its answer before any claim is touched; the code is one of the outcomes table."""

    decision = Decision.REFUSED

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message, code=code)
