"""Refusals as RFC 9457 problems: every answer of 400 or more has one shape and a stable code."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web
from msgspec import Struct

from runtime.contract.errors import Decision, HoldfastError

CONTENT_TYPE: Final = "application/problem+json"
SHOWN_FAULTS: Final = 50
"""Most field faults that one answer lists: an answer must not grow with a hostile body."""
RETRY_SECONDS: Final = 5
"""`Retry-After` of a refusal that time may lift."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FieldFault(Struct, frozen=True):
    """One thing wrong with a body.

    Attributes:
        pointer: JSON pointer (RFC 6901) of the place; "" is the whole body.
        detail: the rule that does not hold.
    """

    pointer: str
    detail: str


class Problem(HoldfastError):
    """A refusal on its way to the caller.

    Args:
        status: HTTP status.
        code: stable reason code.
        detail: one line for a person; never a secret.
        faults: what is wrong with the body, all of it.
        headers: further response headers.
        members: further members of the answer, such as `run_id`.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        faults: Sequence[FieldFault] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail, code=code)
        self.status = status
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.members = dict(members or {})
        self.decision = _decision(status)

    def response(self) -> web.Response:
        """The answer."""
        body: dict[str, object] = {
            "type": "about:blank",
            "title": _title(self.status),
            "status": self.status,
            "code": self.code,
            "detail": str(self),
            **self.members,
        }
        if self.faults:
            body["errors"] = [{"pointer": f.pointer, "detail": f.detail} for f in self.faults[:SHOWN_FAULTS]]
        return web.Response(
            status=self.status,
            body=json.dumps(body, ensure_ascii=True).encode(),
            headers={"Content-Type": CONTENT_TYPE, **self.headers},
        )


def unavailable(code: str, detail: str, members: Mapping[str, object] | None = None) -> Problem:
    """A 503 that a later try may not meet."""
    return Problem(503, code, detail, headers={"Retry-After": str(RETRY_SECONDS)}, members=members)


def problem_of_http(error: web.HTTPException) -> Problem:
    """The problem that stands for an error of the framework."""
    code = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}.get(error.status, "refused")
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    return Problem(error.status, code, error.reason, headers=headers)


def _decision(status: int) -> Decision:
    if status in {401, 403}:
        return Decision.REFUSED
    return Decision.RETRY if status in {408, 429, 503} else Decision.PERMANENT


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
