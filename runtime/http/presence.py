"""Whether a caller is still there, and takes what it is sent: what waits for it is given up once it is not."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from aiohttp import web

from runtime.http.problem import Problem

LOOK_SECONDS: Final = 1.0
"""How often a caller is looked for while nothing is sent to it."""
LEFT_STATUS: Final = 499
"""What is counted for a caller that left; nobody reads it."""


def is_gone(request: web.Request) -> bool:
    """Whether the caller has closed its connection; closing only the sending half counts as leaving."""
    return request.transport is None or request.transport.is_closing()


def caller_left() -> Problem:
    """The answer that nobody reads."""
    return Problem(LEFT_STATUS, "caller_left", "the caller closed the connection before the answer")


def keep_unsent(request: web.Request, most: int) -> None:
    """Has the system take few bytes of the answer before they can leave, so that a caller that takes nothing is seen.

    By its own rule it takes megabytes, of which a third must have gone before it takes more: a slow but steady caller
    would seem to take nothing for long. A connection that has no such bound, as one of a unix socket, is left as it is.

    Args:
        request: whose answer is sent.
        most: bytes.
    """
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most)
