"""Whether a caller is still there: what waits for it is given up once it is not."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from runtime.api.problem import Problem

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
