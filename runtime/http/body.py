"""Reading a request's body: only after the caller is known, bounded in bytes and in time."""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

from runtime.http.problem import Problem
from runtime.ports.clock import Clock

READ_SECONDS: Final = 30
"""Longest wait for a body: a caller that sends slower than 70 KB/s at the size of 2 MiB holds a connection, no more."""


async def read_json_body(request: web.Request, clock: Clock, limit: int) -> bytes:
    """The bytes of a body that says it is JSON.

    Args:
        request: nothing of its body was read; its application's `client_max_size` is `limit`.
        clock: bounds the wait.
        limit: most bytes.

    Raises:
        Problem: 415 for another type or an encoding, 413 above the limit, 408 where it does not arrive in time,
            400 where it breaks off.
    """
    if request.content_type != "application/json":
        raise Problem(
            415, "unsupported_media_type", f"the body is {request.content_type}, send Content-Type: application/json"
        )
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower()
    if encoding != "identity":
        # Refused before it is inflated: a small body may unpack to gigabytes.
        raise Problem(415, "unsupported_content_encoding", f"the body is encoded as {encoding!a}, send it as it is")
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    try:
        async with clock.timeout(READ_SECONDS):
            await _invite(request)
            return await request.read()
    except TimeoutError:
        raise Problem(408, "body_timeout", f"the body did not arrive within {READ_SECONDS} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limit) from None
    except (web.RequestPayloadError, ConnectionError):
        raise Problem(400, "body_broken", "the body broke off") from None


async def expect_nothing_yet(_request: web.Request) -> None:
    """Answers `Expect: 100-continue` with nothing: whether the body is wanted is known once the caller is."""


async def _invite(request: web.Request) -> None:
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The framework takes what was written for the beginning of the answer.
        request.writer.output_size = 0


def _too_large(limit: int) -> Problem:
    return Problem(413, "body_too_large", f"the body is over the limit of {limit} bytes")
