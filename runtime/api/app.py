"""The API as an application: parts joined, routes added, nothing decided."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from aiohttp import web

from runtime.api.access import Access
from runtime.api.callback_routes import CallbackRoutes
from runtime.api.callbacks import Callbacks
from runtime.api.cancellation import Cancellations
from runtime.api.dead_letters import DeadLetters
from runtime.api.deps import ApiDeps
from runtime.api.dispatch import Dispatcher, DispatchRules
from runtime.api.event_feed import EventFeed
from runtime.api.event_log import EventLog
from runtime.api.event_stream import EventStream
from runtime.api.executions import Executions
from runtime.api.executor_client import ExecutorClient
from runtime.api.job import JobMaker
from runtime.api.key_ring import KeyRing
from runtime.api.key_routes import KeyRoutes
from runtime.api.key_store import KeyStore
from runtime.api.letter_routes import LetterParts, LetterRoutes
from runtime.api.letter_store import LetterStore
from runtime.api.payloads import Payloads
from runtime.api.problem import answer_problems
from runtime.api.replay import Replays
from runtime.api.run_end import RunEnd
from runtime.api.run_list import RunList
from runtime.api.run_request import RunRules, WaitedRules
from runtime.api.run_routes import RunParts, RunRoutes, WaitedRuns
from runtime.api.run_store import RunStore
from runtime.api.stream_run import StreamRuns
from runtime.api.submission import Submissions
from runtime.api.sweeper import Sweeper
from runtime.api.sync_run import SyncRuns
from runtime.api.watch import RunWatch, waking_on_drain
from runtime.contract.limits import API_BODY_BYTES, SETTLE_BUDGET
from runtime.contract.names import TICK_PATH
from runtime.contract.settings.api import ApiSettings
from runtime.observability.request_counts import METRICS, count_requests
from runtime.observability.request_span import trace_requests
from runtime.runner import add_health_routes

DEPS: Final = web.AppKey("deps", ApiDeps)
EXECUTIONS: Final = web.AppKey("executions", Executions)
WATCH: Final = web.AppKey("watch", RunWatch)


def create_app(deps: ApiDeps) -> web.Application:
    """The API. Serve it with `auto_decompress=False`: no body may be inflated.

    Its clean-up closes the documents and the publisher.
    """
    settings = deps.settings
    app = web.Application(
        middlewares=[count_requests(deps.metrics), trace_requests(deps.tracing), answer_problems],
        client_max_size=API_BODY_BYTES,
    )
    watch = RunWatch(deps.clock)
    runs = RunStore(deps.documents, deps.clock, watch, deps.metrics, settings.run_retention)
    callback_url = settings.base_url.rstrip("/")
    rules = DispatchRules(topic=settings.topic, callback_url=callback_url, token_life=settings.job_token_life)
    dispatcher = Dispatcher(deps.publisher, deps.signer, rules, deps.clock, deps.metrics)
    ring = KeyRing(settings.key_hashes, deps.documents, deps.clock)
    access = Access(
        ring, deps.verifier, deps.service_tokens, deps.letter_tokens, settings.base_url, deps.clock, deps.lifecycle
    )
    sweeper = Sweeper(deps.documents, runs, dispatcher, deps.clock, deps.metrics, draining=deps.lifecycle.draining)
    app[DEPS] = deps
    app[METRICS] = deps.metrics
    app[WATCH] = watch
    app.cleanup_ctx.append(_wakes_waits)
    app.on_cleanup.append(_close)
    callbacks = Callbacks(runs, settings.run_lease)
    parts = _run_parts(deps, runs, dispatcher, watch)
    if deps.executor is not None:
        executions = _executions(deps, deps.executor, parts, callbacks, watch)
        app[EXECUTIONS] = executions
        app.cleanup_ctx.append(_follows_executions)
        parts = replace(parts, waited=_waited(deps, executions, parts, watch))
    RunRoutes(parts).add_to(app, access)
    cancellations = Cancellations(runs, watch, deps.clock, deps.lifecycle.draining)
    CallbackRoutes(callbacks, cancellations, deps.clock).add_to(app, access)
    LetterRoutes(_letter_parts(deps, runs, dispatcher)).add_to(app, access)
    KeyRoutes(KeyStore(deps.documents, ring, deps.clock), deps.clock).add_to(app, access)

    async def tick(_request: web.Request) -> web.StreamResponse:
        return web.json_response(await sweeper.tick())

    app.router.add_post(TICK_PATH, access.for_scheduler(tick))
    add_health_routes(app, deps.lifecycle, deps.metrics, "api")
    return app


def _run_parts(deps: ApiDeps, runs: RunStore, dispatcher: Dispatcher, watch: RunWatch) -> RunParts:
    settings, clock = deps.settings, deps.clock
    feed = EventFeed(runs, EventLog(deps.documents), watch, clock, deps.lifecycle.draining)
    return RunParts(
        rules=RunRules(
            engines=deps.engines,
            timeout_max=settings.run_timeout_max,
            max_attempts=settings.max_attempts,
            waited=None if deps.executor is None else _waited_rules(settings),
        ),
        submissions=Submissions(runs, dispatcher, clock, settings.max_queue_age),
        runs=runs,
        run_list=RunList(deps.documents),
        payloads=Payloads(deps.documents),
        feed=feed,
        stream=EventStream(feed, clock, _longest_wait(settings).total_seconds()),
        waited=None,
        clock=clock,
    )


def _waited_rules(settings: ApiSettings) -> WaitedRules:
    return WaitedRules(timeout_max=settings.executor_timeout_max, wait_max=_longest_wait(settings))


def _longest_wait(settings: ApiSettings) -> timedelta:
    return settings.request_timeout - timedelta(seconds=SETTLE_BUDGET)


def _executions(
    deps: ApiDeps, executor: ExecutorClient, parts: RunParts, callbacks: Callbacks, watch: RunWatch
) -> Executions:
    return Executions(
        parts.submissions,
        JobMaker(deps.signer, deps.settings.base_url.rstrip("/")),
        executor,
        RunEnd(callbacks, parts.runs, parts.payloads, deps.clock),
        watch,
        lease=deps.settings.run_lease,
        clock=deps.clock,
        lifecycle=deps.lifecycle,
        metrics=deps.metrics,
    )


def _waited(deps: ApiDeps, executions: Executions, parts: RunParts, watch: RunWatch) -> WaitedRuns:
    seconds = _longest_wait(deps.settings).total_seconds()
    return WaitedRuns(
        results=SyncRuns(executions, parts.runs, parts.payloads, watch, deps.clock),
        streams=StreamRuns(executions, parts.feed, parts.payloads, deps.clock, deps.metrics, seconds),
    )


def _letter_parts(deps: ApiDeps, runs: RunStore, dispatcher: Dispatcher) -> LetterParts:
    letters = LetterStore(deps.documents)
    payloads = Payloads(deps.documents)
    return LetterParts(
        letters=letters,
        dead_letters=DeadLetters(letters, runs, deps.verifier, deps.clock, deps.metrics),
        replays=Replays(letters, runs, payloads, dispatcher, deps.settings.max_queue_age),
        clock=deps.clock,
    )


async def _follows_executions(app: web.Application) -> AsyncIterator[None]:
    async with app[EXECUTIONS].following():
        yield


async def _wakes_waits(app: web.Application) -> AsyncIterator[None]:
    async with waking_on_drain(app[WATCH], app[DEPS].lifecycle.draining):
        yield


async def _close(app: web.Application) -> None:
    deps = app[DEPS]
    try:
        await deps.publisher.close()
    finally:
        await deps.documents.close()
