"""The one credential of a request: exactly one Authorization header, one scheme, one token."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

TOKEN_BYTES: Final = 8 * 1024
"""Longest token that is looked at."""

_BEARER: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] ([A-Za-z0-9._~+/=-]+)")


def authorization_of(request: web.Request) -> list[bytes]:
    """The values of a request's Authorization headers as they came: two readers must not pick different ones."""
    return [value for name, value in request.raw_headers if name.lower() == b"authorization"]


def bearer_token(authorization: list[bytes]) -> bytes | None:
    """The token of exactly one `Bearer TOKEN`; None for anything else."""
    if len(authorization) != 1 or len(authorization[0]) > TOKEN_BYTES:
        return None
    match = _BEARER.fullmatch(authorization[0])
    return None if match is None else match[1]
