"""P7: an outcome as an HTTP answer: 204 alone acknowledges, everything else is plain text with its reason code."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from aiohttp import web

from runtime.contract.outcomes import Outcome

RETRY_AFTER: Final = "10"
"""Seconds, in every 503: the smallest backoff of a subscription. The broker goes by its own."""


def respond(outcome: Outcome) -> web.Response:
    """The answer."""
    if outcome.status == HTTPStatus.NO_CONTENT:
        return web.Response(status=outcome.status)
    headers = {"Retry-After": RETRY_AFTER} if outcome.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return web.Response(status=outcome.status, text=outcome.code, headers=headers)
