"""An API that hangs or asks for patience holds the end of a run up no longer than the request has room for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from datetime import timedelta
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.limits import SETTLE_BUDGET
from runtime.execution.answer import failed
from runtime.execution.callbacks import CallbackRules, ExecutionCallbacks
from runtime.executor.ending import Stop, ending
from runtime.executor.reporter import FLUSH_SECONDS, ReportedRun, Reporter, ReportRules
from runtime.observability.metrics import Metrics


class Session:
    """A session whose server hangs for 30 s, or answers 503 and asks for that much patience; on a moved clock."""

    def __init__(self, clock: ManualClock, *, hangs: bool) -> None:
        self._clock, self._hangs = clock, hangs
        self.tries: list[tuple[str, float]] = []

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, *, timeout: aiohttp.ClientTimeout, **_: Any
    ) -> AsyncIterator[SimpleNamespace]:
        if method == "POST":
            self.tries.append((url.rpartition("/")[2], self._clock.monotonic()))
        assert timeout.total is not None
        if self._hangs:
            async with self._clock.timeout(timeout.total):
                await self._clock.sleep(30)
        yield SimpleNamespace(content=_Empty(), status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "30"})


class _Empty:
    async def iter_chunked(self, _size: int) -> AsyncIterator[bytes]:
        for chunk in list[bytes]():
            yield chunk


async def _finish(*, hangs: bool) -> tuple[Session, float, Metrics]:
    """The end of a run with one event that waits: the tries, how long it took, and the counts."""
    clock, metrics = ManualClock(), Metrics()
    session = Session(clock, hangs=hangs)
    rules = CallbackRules(version="1", timeout=timedelta(seconds=5), retries=3)
    part: Any = session  # of a session, all that is used
    callbacks = ExecutionCallbacks(
        part, "https://api.example", "token", clock=clock, rules=rules, meters=metrics, jitter=lambda most: most
    )
    run = ReportedRun(run_id="r1", job_id="r1.1", lease_token="lease")
    stops: list[Stop] = []
    reporter = Reporter(run, callbacks, clock, ReportRules(), meters=metrics, stop=stops.append)
    reporter.start()
    reporter.extend([(1, "tick", b"1", "2026-01-01T00:00:00.000Z")], 1)
    began = clock.monotonic()
    finishing = asyncio.create_task(reporter.finish(ending("r1", failed("x"), 1)))
    while not finishing.done():
        await clock.advance(0.25)
        assert clock.monotonic() - began < 120, "the end of the run never comes"
    took = clock.monotonic() - began
    await reporter.close()
    assert finishing.result() is False, "the caller is told that nothing was acknowledged"
    assert stops == [], "silence is no lost lease"
    return session, took, metrics


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "asks for 30 s"])
async def test_the_end_of_a_run_comes_within_its_margin_whatever_the_api_does(hangs: bool) -> None:
    """BR-74."""
    _, took, metrics = await _finish(hangs=hangs)
    assert took <= 2 * FLUSH_SECONDS + 0.5 < SETTLE_BUDGET, "last events, then the end, each within its own time"
    assert metrics.registry.get_sample_value("callback_drops_total") == 1


async def test_an_api_that_hangs_is_left_after_each_timeout_and_tried_again() -> None:
    """BR-74: 5 s for each try, never the 30 s that it would take."""
    session, _, _ = await _finish(hangs=True)
    moments = [moment for _, moment in session.tries]
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) >= 3
    assert max(pauses) <= 5 + 1


async def test_patience_that_is_asked_for_costs_one_try_of_each_report() -> None:
    session, _, _ = await _finish(hangs=False)
    assert len(session.tries) == 2, "neither is sent again before the API wants it, and by then its time is over"
