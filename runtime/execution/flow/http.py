"""What an `http` node asks for and gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from runtime.execution.flow.limits import HTTP_SECONDS


class HttpRequest(Struct, frozen=True):
    """A request.

    Attributes:
        method: upper case.
        url: as the flow gives it; checked by the client.
        headers: values checked by the client.
        body: JSON bytes; None sends none.
        seconds: time limit, connecting included.
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    seconds: float = HTTP_SECONDS


class HttpAnswer(Struct, frozen=True):
    """An answer.

    Attributes:
        status: HTTP status.
        headers: lower-case name -> value, repeated ones joined with a comma.
        body: at most HTTP_RESPONSE_BYTES.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient(Protocol):
    """Sends the requests of flows."""

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """One try, no redirects.

        Raises:
            FlowFault: refused, unreachable, too slow or too large; names the host at most, never the whole address.
        """
        ...
