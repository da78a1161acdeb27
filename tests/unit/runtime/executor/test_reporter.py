"""Reports of a run: in batches, numbered on without gaps whatever is lost, and bounded in time."""

from __future__ import annotations

import asyncio

import pytest

from runtime.adapters.clock import ManualClock
from runtime.execution.answer import failed
from runtime.execution.batcher import QUEUE_EVENTS
from runtime.execution.callback_messages import CallbackUnavailable, Cancellation, LeaseNotCurrent
from runtime.execution.event import event_id
from runtime.executor.ending import Stop, ending
from runtime.executor.reporter import (
    FLUSH_SECONDS,
    HEED_SECONDS,
    PATIENCE_SECONDS,
    STUCK_SECONDS,
    ReportedRun,
    Reporter,
    ReportRules,
)
from runtime.observability.metrics import Metrics
from tests.support.executor_bench import RecordedApi


class Bench:
    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.clock = ManualClock()
        self.api = RecordedApi()
        self.metrics = Metrics()
        self.stops: list[Stop] = []
        self.reporter = Reporter(
            ReportedRun(run_id="r1", job_id="r1.1", lease_token="lease", patience=patience),
            self.api,
            self.clock,
            ReportRules(),
            meters=self.metrics,
            stop=self.stops.append,
        )
        self.reporter.start()

    def event(self, number: int) -> None:
        payload = b"%d" % number
        self.reporter.extend([(number, "tick", payload, "2026-01-01T00:00:00.000Z")], len(payload))

    async def events(self, *numbers: int) -> None:
        for number in numbers:
            self.event(number)
        await self.clock.advance(2)

    async def finish(self) -> bool:
        task = asyncio.create_task(self.reporter.finish(ending("r1", failed("x"), 1)))
        await self.clock.advance(0)
        while not task.done():
            await self.clock.advance(0.5)
        await self.reporter.close()
        return task.result()

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0


async def test_a_burst_goes_out_in_full_batches_before_the_end() -> None:
    """BR-74: 250 events are 100, 100 and 50."""
    bench = Bench()
    for number in range(250):
        bench.event(number)
    assert await bench.finish()
    assert bench.api.batches == [100, 100, 50]
    assert [event.payload for event in bench.api.events_kept] == [b"%d" % number for number in range(250)]
    assert [event.id for event in bench.api.events_kept] == [event_id("r1", 3, number) for number in range(250)]
    assert bench.count("callback_batches_total", result="acknowledged") == 3


async def test_what_is_lost_leaves_no_gap_and_is_counted() -> None:
    bench = Bench()
    await bench.events(1)
    bench.api.fault = lambda kind, _request: CallbackUnavailable("away") if kind == "events" else None
    await bench.events(2, 3)
    bench.api.fault = lambda _kind, _request: None
    await bench.events(4)
    assert await bench.finish()
    assert [(event.sequence, event.payload) for event in bench.api.events_kept] == [(0, b"1"), (1, b"4")]
    assert bench.count("callback_drops_total") == 2
    assert bench.count("callback_batches_total", result="failed") == 1


async def test_a_batch_that_arrived_though_its_answer_was_lost_shadows_no_later_one() -> None:
    bench = Bench()
    await bench.events(1)
    bench.api.after = lambda kind, _request: CallbackUnavailable("lost") if kind == "events" else None
    await bench.events(2)
    bench.api.after = lambda _kind, _request: None
    await bench.events(3)
    assert await bench.finish()
    assert [(event.sequence, event.payload) for event in bench.api.events_kept] == [(0, b"1"), (1, b"2"), (2, b"3")]


async def test_what_nobody_waited_for_and_does_not_fit_is_counted() -> None:
    bench = Bench()
    bench.api.gate.clear()
    for number in range(5000):
        bench.event(number)
    assert bench.count("callback_drops_total") == 4000
    assert not await bench.finish()
    assert bench.clock.monotonic() <= 2 * FLUSH_SECONDS + 1
    assert bench.count("callback_drops_total") == 5000


@pytest.mark.parametrize(
    ("pause", "patience", "seconds"),
    [(None, 30, STUCK_SECONDS), (4, 30, 30), (4, 7, 7), (None, 2, 2)],
    ids=["a stuck API", "a slow API", "a slow API and a short run", "a stuck API and a short run"],
)
async def test_room_is_waited_for_while_the_api_takes_batches_and_not_for_ever(
    pause: int | None, patience: float, seconds: float
) -> None:
    bench = Bench(patience)
    bench.api.gate.clear()
    waited = asyncio.create_task(_waited_in_all(bench))
    while not waited.done():
        await bench.clock.advance(0.5)
        if pause and bench.clock.monotonic() % pause == 0:
            bench.api.gate.set()
            bench.api.fault = lambda kind, _request: bench.api.gate.clear() if kind == "events" else None
    assert abs(waited.result() - seconds) <= 0.5
    assert bench.count("callback_drops_total") == 0, "nothing came that did not fit"
    bench.api.fault = lambda _kind, _request: None
    bench.api.gate.set()
    assert await bench.finish()
    assert bench.count("callback_drops_total") == 0


async def _waited_in_all(bench: Bench) -> float:
    """Fills the queue as an engine does that never ends; gives the time until it would not wait any more."""
    number = 0
    while True:
        for _ in range(bench.reporter.room()):
            number += 1
            bench.event(number)
        began = bench.clock.monotonic()
        await bench.reporter.until_room()
        if bench.reporter.room() == QUEUE_EVENTS:
            return bench.clock.monotonic() if bench.api.batches else bench.clock.monotonic() - began


async def test_those_who_wait_for_room_go_on_at_once_when_the_run_is_stopped() -> None:
    bench = Bench()
    bench.api.gate.clear()
    await bench.events(0)
    for number in range(QUEUE_EVENTS):
        bench.event(number)
    waiting = asyncio.create_task(bench.reporter.until_room())
    await bench.clock.advance(0)
    assert not waiting.done()
    bench.reporter.hasten()
    await bench.clock.advance(0)
    assert waiting.done()
    await bench.finish()


async def test_a_lost_lease_stops_the_run_and_ends_all_reports() -> None:
    bench = Bench()
    bench.api.fault = lambda kind, _request: LeaseNotCurrent("another has it") if kind == "events" else None
    await bench.events(1)
    await bench.events(2)
    assert bench.stops == [Stop.LEASE_LOST]
    assert not await bench.finish()
    assert len(bench.api.reports) == 1


async def test_a_lease_is_renewed_before_it_lapses_and_not_after_the_end() -> None:
    bench = Bench()
    await bench.clock.advance(149)
    assert len(bench.api.reports) == 2
    assert await bench.finish()
    count = len(bench.api.reports)
    await bench.clock.advance(1000)
    assert len(bench.api.reports) == count


async def test_an_end_that_the_api_already_has_is_reported() -> None:
    bench = Bench()
    bench.api.held = False
    task = asyncio.create_task(bench.reporter.finish(ending("r1", failed("x"), 1)))
    await bench.clock.advance(1)
    assert await task is False, "the record says cancelled, the run failed"
    await bench.reporter.close()


@pytest.mark.parametrize(
    ("cancel_requested", "why"), [(True, Stop.CANCEL_REQUESTED), (False, Stop.LEASE_LOST)], ids=["stop", "ended"]
)
async def test_a_run_stops_long_before_its_next_renewal(cancel_requested: bool, why: Stop) -> None:
    bench = Bench()
    bench.api.stopped.put_nowait(Cancellation(cancel_requested=cancel_requested, ended=not cancel_requested))
    await bench.clock.advance(HEED_SECONDS - 0.01)
    assert bench.api.stopped.qsize() == 1, "a run that is over by then never asks"
    await bench.clock.advance(0.01)
    assert bench.stops == [why]
    assert bench.api.reports == []
    assert await bench.finish() is cancel_requested, "an end is reported by who was asked to stop, not by who is late"
