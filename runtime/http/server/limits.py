"""What one connection may cost."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

IDLE_SECONDS: Final = 620.0
"""Google's load balancers keep a connection for 600 s: the side that sends requests is to end it, not this one."""
HEAD_SECONDS: Final = 30.0
"""Longest from the first byte of a request to the end of its headers, and for a caller to take its answers."""
LINE_BYTES: Final = 8 * 1024
"""Longest request line."""
HEAD_BYTES: Final = 32 * 1024
"""Longest request line and headers together: a token of 16 KiB is still read, to be refused by its own rule."""
HEADERS: Final = 128
"""Most header fields of one request."""
HELD_BYTES: Final = 64 * 1024
"""What is held of a body before its connection is read no further."""


class Limits(Struct, frozen=True):
    """Times are seconds, kept to within a second.

    Attributes:
        idle: longest between an answer and the next request.
        head: see HEAD_SECONDS.
        linger: how long what still arrives is taken and thrown away once an answer was the last one; 0: not at all.
    """

    idle: float = IDLE_SECONDS
    head: float = HEAD_SECONDS
    linger: float = 1.0
