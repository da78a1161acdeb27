"""Reading an answer without trusting its length."""

from __future__ import annotations

import aiohttp


class BodyTooLong(Exception):
    """An answer went on beyond its limit."""


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, decoded from any content encoding.

    Raises:
        BodyTooLong: it has more than `limit` bytes; the connection is given up.
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            response.close()
            raise BodyTooLong(f"the answer has more than {limit} bytes")
    return bytes(body)
