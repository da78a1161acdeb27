"""Refusals of the API: every answer of 400 or more has one shape and a stable code."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from aiohttp import web

from runtime.http.problem import FieldFault, Handler, Problem, problem_of_http, unavailable
from runtime.ports.documents import StoreError, StoreUnavailable

__all__ = ["FieldFault", "Handler", "Problem", "answer_problems", "unavailable", "unknown_run"]

log = structlog.get_logger()


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
        return problem_of_http(error).response()
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return Problem(500, "internal", "the service failed; the fault is in its log").response()
