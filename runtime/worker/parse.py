"""P3: from the bytes of an authenticated request to its message."""

from __future__ import annotations

import asyncio
from typing import Final

from runtime.contract import limits
from runtime.contract.envelope import EnvelopeError, PushEnvelope
from runtime.contract.settings.worker import WorkerSettings
from runtime.ports.clock import Clock
from runtime.worker.envelope import read_push
from runtime.worker.request import PushRequest, Refused

LOOP_BYTES: Final = 256 * 1024
"""Largest body that is decoded on the event loop; a larger one would keep heartbeats waiting."""

BODY_SECONDS: Final = 30
"""Longest that a body may take to arrive: the platform holds it in full before it passes the request on."""


async def receive(request: PushRequest, settings: WorkerSettings, clock: Clock, *, deadline: float) -> PushEnvelope:
    """Reads and checks the body.

    Raises:
        Refused
    """
    body = _at_hand(request)
    if body is None:
        body = await _read(request, clock, deadline)
    try:
        message = read_push(body) if len(body) <= LOOP_BYTES else await asyncio.to_thread(read_push, body)
    except EnvelopeError as error:
        raise Refused(str(error), code=error.code) from error
    if message.subscription != settings.subscription:
        raise Refused(
            f"the delivery is of another subscription than {settings.subscription}", code="unexpected_subscription"
        )
    return message


def _at_hand(request: PushRequest) -> bytes | None:
    """The body, as sent, where it has come: an encoding is refused, never undone, so that no small body can grow."""
    if request.content_encoding and request.content_encoding.strip().lower() not in {"", "identity"}:
        raise Refused("the body has a Content-Encoding; send it plain", code="unsupported_content_encoding")
    if request.content_length is not None and request.content_length > limits.PUSH_ENVELOPE_BYTES:
        raise _too_large()
    whole = request.at_hand()
    if whole is not None and len(whole) > limits.PUSH_ENVELOPE_BYTES:
        raise _too_large()
    return whole


async def _read(request: PushRequest, clock: Clock, deadline: float) -> bytes:
    body = bytearray()
    try:
        async with clock.timeout(min(BODY_SECONDS, deadline - clock.monotonic())):
            async for chunk in request.body():
                body += chunk
                if len(body) > limits.PUSH_ENVELOPE_BYTES:
                    raise _too_large()
    except ConnectionError as error:
        raise Refused(f"the body broke off: {error}", code="invalid_push_envelope") from error
    except TimeoutError as error:
        raise Refused(f"the body did not arrive within {BODY_SECONDS} s", code="processing_timeout") from error
    return bytes(body)


def _too_large() -> Refused:
    return Refused(f"the body is over {limits.PUSH_ENVELOPE_BYTES} bytes", code="envelope_too_large")
