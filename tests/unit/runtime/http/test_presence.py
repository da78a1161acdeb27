"""What is asked of the system for a caller's connection."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import web

from runtime.http.presence import keep_unsent

MOST = 64 * 1024


def answered_on(connection: socket.socket | None) -> web.Request:
    transport: Any = SimpleNamespace(get_extra_info=lambda _name: connection)
    return cast("web.Request", SimpleNamespace(transport=transport))


def test_a_tcp_connection_keeps_few_bytes_that_cannot_leave() -> None:
    with socket.socket() as connection:
        keep_unsent(answered_on(connection), MOST)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == MOST


def test_a_connection_that_knows_no_such_bound_is_answered_all_the_same() -> None:
    """The gateway of the local stack reaches an instance over a unix socket, which refuses the option."""
    with socket.socket(socket.AF_UNIX) as connection:
        keep_unsent(answered_on(connection), MOST)
    keep_unsent(answered_on(None), MOST)
    keep_unsent(cast("web.Request", SimpleNamespace(transport=None)), MOST)
