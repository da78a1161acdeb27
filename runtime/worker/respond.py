"""P7: an outcome as an HTTP answer: 204 alone acknowledges, everything else is plain text with its reason code."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from runtime.contract.outcomes import OUTCOMES, Outcome
from runtime.http.server.answer import Answer, plain

RETRY_AFTER: Final = "10"
"""Seconds, in every 503: the smallest backoff of a subscription. The broker goes by its own."""


def respond(outcome: Outcome) -> Answer:
    """The answer."""
    return _ANSWERS[outcome.code]


def _answer(outcome: Outcome) -> Answer:
    if outcome.status == HTTPStatus.NO_CONTENT:
        return Answer(outcome.status)
    headers = {"Retry-After": RETRY_AFTER} if outcome.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return plain(outcome.status, outcome.code, **headers)


_ANSWERS: Final = {code: _answer(row) for code, row in OUTCOMES.items()}
