"""The API as an application: parts joined, routes added, nothing decided."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from runtime.api.access import Access
from runtime.api.callback_routes import CallbackRoutes
from runtime.api.callbacks import Callbacks
from runtime.api.dead_letters import DeadLetters
from runtime.api.deps import ApiDeps
from runtime.api.dispatch import Dispatcher, DispatchRules
from runtime.api.event_feed import EventFeed
from runtime.api.event_log import EventLog
from runtime.api.event_stream import EventStream
from runtime.api.key_ring import KeyRing
from runtime.api.key_routes import KeyRoutes
from runtime.api.key_store import KeyStore
from runtime.api.letter_routes import LetterParts, LetterRoutes
from runtime.api.letter_store import LetterStore
from runtime.api.payloads import Payloads
from runtime.api.problem import answer_problems
from runtime.api.replay import Replays
from runtime.api.run_list import RunList
from runtime.api.run_request import RunRules
from runtime.api.run_routes import RunParts, RunRoutes
from runtime.api.run_store import RunStore
from runtime.api.submission import Submissions
from runtime.api.sweeper import Sweeper
from runtime.api.watch import RunWatch, waking_on_drain
from runtime.contract.limits import API_BODY_BYTES, SETTLE_BUDGET
from runtime.contract.names import TICK_PATH
from runtime.observability.metrics import count_requests
from runtime.server import add_health_routes

DEPS: Final = web.AppKey("deps", ApiDeps)
WATCH: Final = web.AppKey("watch", RunWatch)


def create_app(deps: ApiDeps) -> web.Application:
    """The API. Serve it with `auto_decompress=False`: no body may be inflated.

    Its clean-up closes the documents and the publisher.
    """
    settings = deps.settings
    app = web.Application(middlewares=[count_requests(deps.metrics), answer_problems], client_max_size=API_BODY_BYTES)
    watch = RunWatch(deps.clock)
    runs = RunStore(deps.documents, deps.clock, watch, deps.metrics, settings.run_retention)
    rules = DispatchRules(
        topic=settings.topic, callback_url=settings.base_url.rstrip("/"), token_life=settings.job_token_life
    )
    dispatcher = Dispatcher(deps.publisher, deps.signer, rules, deps.clock, deps.metrics)
    ring = KeyRing(settings.key_hashes, deps.documents, deps.clock)
    access = Access(
        ring, deps.verifier, deps.service_tokens, deps.letter_tokens, settings.base_url, deps.clock, deps.lifecycle
    )
    sweeper = Sweeper(deps.documents, runs, dispatcher, deps.clock, deps.metrics, draining=deps.lifecycle.draining)
    app[DEPS] = deps
    app[WATCH] = watch
    app.cleanup_ctx.append(_wakes_waits)
    app.on_cleanup.append(_close)
    RunRoutes(_run_parts(deps, runs, dispatcher, watch)).add_to(app, access)
    CallbackRoutes(Callbacks(runs, settings.run_lease), deps.clock).add_to(app, access)
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
        rules=RunRules(engines=deps.engines, timeout_max=settings.run_timeout_max, max_attempts=settings.max_attempts),
        submissions=Submissions(runs, dispatcher, clock, settings.max_queue_age),
        runs=runs,
        run_list=RunList(deps.documents),
        payloads=Payloads(deps.documents),
        feed=feed,
        stream=EventStream(feed, clock, settings.request_timeout.total_seconds() - SETTLE_BUDGET),
        clock=clock,
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


async def _wakes_waits(app: web.Application) -> AsyncIterator[None]:
    async with waking_on_drain(app[WATCH], app[DEPS].lifecycle.draining):
        yield


async def _close(app: web.Application) -> None:
    deps = app[DEPS]
    try:
        await deps.publisher.close()
    finally:
        await deps.documents.close()
