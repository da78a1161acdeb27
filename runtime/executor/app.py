"""The executor as an application: three routes that run a job, health and metrics, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web

from runtime.contract.limits import JOB_BODY_BYTES
from runtime.contract.names import HEALTH_LIVE
from runtime.execution.tasks import end
from runtime.executor.deps import ExecutorDeps
from runtime.executor.routes import ExecuteRoutes
from runtime.executor.runs import Runs
from runtime.http.problem import Handler, Problem, problem_of_http
from runtime.observability.request_counts import METRICS, count_requests
from runtime.observability.request_span import trace_requests
from runtime.runner import add_health_routes

DEPS: Final = web.AppKey("deps", ExecutorDeps)
RUNS: Final = web.AppKey("runs", Runs)

log = structlog.get_logger()


def create_app(deps: ExecutorDeps) -> web.Application:
    """The executor. Serve it with `auto_decompress=False`: no body may be inflated.

    Its clean-up ends what still runs, then the engines.
    """
    app = web.Application(
        middlewares=[count_requests(deps.metrics), trace_requests(deps.tracing), answer_problems],
        client_max_size=JOB_BODY_BYTES,
    )
    app[DEPS] = deps
    app[METRICS] = deps.metrics
    app[RUNS] = Runs(deps)
    ExecuteRoutes(deps, app[RUNS]).add_to(app)
    add_health_routes(app, deps.lifecycle, deps.metrics, "executor", health=HEALTH_LIVE)
    app.cleanup_ctx.append(_runs)
    app.on_startup.append(_say_how)
    return app


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns every error of a handler into a problem; only an error that nobody planned is logged with its trace."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return problem_of_http(error).response()
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return Problem(500, "internal", "the service failed; the fault is in its log").response()


async def _runs(app: web.Application) -> AsyncIterator[None]:
    draining = asyncio.create_task(app[RUNS].drain(), name="end runs on drain")
    yield
    await end(draining)
    await app[RUNS].close()
    await app[DEPS].stop_engines()


async def _say_how(app: web.Application) -> None:
    settings = app[DEPS].settings
    log.info(
        "executor_started",
        port=settings.port,
        execution_timeout_seconds=settings.run_timeout.total_seconds(),
        callback_timeout_ms=round(1000 * settings.callback_timeout.total_seconds()),
        callback_retries=settings.callback_retries,
        batch_interval_ms=round(1000 * settings.batch_interval.total_seconds()),
        max_batch_size=settings.batch_size,
    )
