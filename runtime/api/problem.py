"""Refusals as RFC 9457 problems: every answer of 400 or more has one shape and a stable code."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web

from runtime.contract.errors import Decision, HoldfastError
from runtime.ports.documents import StoreError, StoreUnavailable

CONTENT_TYPE: Final = "application/problem+json"
SHOWN_FAULTS: Final = 50
"""Most field faults that one answer lists: an answer must not grow with a hostile body."""
RETRY_SECONDS: Final = 5
"""`Retry-After` of a refusal that time may lift."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FieldFault:
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


def unknown_run(run_id: str) -> Problem:
    """The 404 of a run that is not recorded, or no longer."""
    return Problem(404, "run_not_found", f"no run {run_id!r} is recorded; records are kept for a limited time")


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns every error of a handler into a problem; only an error that nobody planned is logged with its trace."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except StoreUnavailable as error:
        log.warning("store_unavailable", error=error.line(), method=request.method, path=request.path)
        return unavailable("store_unavailable", "the store of runs did not answer in time; try again").response()
    except StoreError as error:
        log.error("store_error", error=error.line(), method=request.method, path=request.path)  # noqa: TRY400 - its text says it all
        return unavailable(error.code, "the store of runs refuses this service; its operator must act").response()
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return _of_http(error).response()
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return Problem(500, "internal", "the service failed; the fault is in its log").response()


def _of_http(error: web.HTTPException) -> Problem:
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
