"""Attempts that do not go as planned: leases lost, APIs down, engines that break, processes that drain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract.states import FailureClass, ProgressStatus, RunState
from runtime.execution.callback_messages import CallbackRefused, CallbackUnavailable, Cancellation
from runtime.execution.outcome import AttemptKind
from runtime.execution.process.starter import ProcessUnavailable
from runtime.ports.engine import EngineStillRunning, RunContext, RunResult
from tests.support.attempt_bench import AttemptBench, bench
from tests.support.scripted_engine import completes, until_cancelled


@pytest.mark.parametrize(("deaf", "seconds"), [(False, 1), (True, 45)], ids=["asked for it", "by the next renewal"])
async def test_a_request_of_the_owner_to_cancel_reaches_the_engine(
    monkeypatch: pytest.MonkeyPatch, deaf: bool, seconds: float
) -> None:
    async def refused(*, wait: int) -> Cancellation:
        raise CallbackRefused("an API that knows no such question", status=404)

    one = await bench(until_cancelled)
    if deaf:
        monkeypatch.setattr(one.api, "cancellation", refused)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(10)
    await one.api.bench.cancel()
    await one.clock.advance(seconds)
    assert task.done()
    end = await task
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.CANCELLED)
    assert one.engine.running == 0


async def test_a_lease_that_another_attempt_took_stops_the_engine_and_reports_nothing() -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(10)
    await one.api.bench.lease(one.api.calls[0]["lease_token"], lease_duration_ms=0)
    await one.api.bench.lease("other")
    await one.clock.advance(60)
    end = await task
    assert (end.kind, end.failure_class) == (AttemptKind.LEASE_LOST, FailureClass.DISPATCH_ERROR)
    assert set(one.api.statuses) == {"running"}
    assert one.engine.running == 0


async def test_a_lease_that_cannot_be_renewed_is_lost_before_the_store_may_give_it_away() -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt(timeout=timedelta(seconds=500)))
    await one.clock.advance(10)
    one.api.before = lambda _body: CallbackUnavailable("down")
    await one.clock.advance(139)
    assert one.engine.running == 1
    await one.clock.advance(3)
    end = await task
    assert end.kind is AttemptKind.LEASE_LOST
    assert one.engine.running == 0


async def test_a_process_that_was_frozen_past_its_lease_stops_instead_of_going_on() -> None:
    """BR-111: what it holds is checked before any effect."""
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(10)
    one.clock._elapsed += 200  # no timer fires in between, as after SIGSTOP and SIGCONT
    await one.api.bench.lease("other")
    await one.clock.advance(0)
    end = await task
    assert end.kind is AttemptKind.LEASE_LOST
    assert one.engine.running == 0


async def test_events_that_are_refused_under_another_lease_stop_the_engine() -> None:
    async def script(context: RunContext) -> RunResult:
        await one.clock.sleep(5)
        await context.emit("chunk", None)
        return await until_cancelled(context)

    one = await bench(script)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    await one.api.bench.lease(one.api.calls[0]["lease_token"], lease_duration_ms=0)
    await one.api.bench.lease("other")
    await one.clock.advance(10)
    assert (await task).kind is AttemptKind.LEASE_LOST


async def test_events_that_are_never_acknowledged_leave_the_run_to_another_attempt() -> None:
    one = await bench(until_cancelled)
    one.api.before = lambda body: CallbackUnavailable("down") if "events" in body else None
    end = await one.ended()
    assert (end.kind, end.failure_class) == (AttemptKind.UNACKNOWLEDGED, FailureClass.DISPATCH_ERROR)
    record = await one.api.bench.record()
    assert (record.state, record.last_failure_class) == (RunState.RUNNING, FailureClass.DISPATCH_ERROR)
    assert not record.leased(one.clock.now()), "the lease was given back, so that the next attempt need not wait"
    assert one.engine.running == 0


async def test_a_drain_stops_the_engine_delivers_its_events_and_gives_the_lease_back() -> None:
    async def script(context: RunContext) -> RunResult:
        await context.emit("chunk", 1)
        await context.emit("chunk", 2)
        return await until_cancelled(context)

    one = await bench(script)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(0.1)
    one.stop.set()
    await one.clock.advance(0.1)
    end = await task
    assert (end.kind, end.state, end.failure_class) == (AttemptKind.STOPPED, None, None)
    assert await one.types() == ["log", "chunk", "chunk"]
    record = await one.api.bench.record()
    assert record.state is RunState.RUNNING
    assert not record.leased(one.clock.now())


async def test_a_drain_does_not_wait_for_an_engine_that_does_not_listen() -> None:
    async def script(_context: RunContext) -> RunResult:
        await one.clock.sleep(1000)
        return RunResult(ProgressStatus.COMPLETED)

    one = await bench(script)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    one.stop.set()
    await one.clock.advance(7)
    assert (await task).kind is AttemptKind.STOPPED
    assert one.engine.running == 0


async def test_a_run_that_completes_while_the_process_drains_is_done() -> None:
    async def script(context: RunContext) -> RunResult:
        await context.cancelled.wait()
        await one.clock.sleep(1)
        return RunResult(ProgressStatus.COMPLETED, output="just in time")

    one = await bench(script)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    one.stop.set()
    await one.clock.advance(2)
    assert ((await task).kind, (await one.api.bench.record()).state) == (AttemptKind.DONE, RunState.SUCCEEDED)


async def test_an_engine_that_ignores_its_deadline_is_cut_off_and_the_run_expires() -> None:
    async def script(_context: RunContext) -> RunResult:
        await one.clock.sleep(1000)
        return RunResult(ProgressStatus.COMPLETED)

    one = await bench(script)
    end = await one.ended()
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.EXPIRED)
    assert one.engine.running == 0


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (ProcessUnavailable("no memory"), FailureClass.ACTIVATION_TIMEOUT),
        (ZeroDivisionError("a bug"), FailureClass.FRAMEWORK_ERROR),
        (asyncio.CancelledError(), FailureClass.FRAMEWORK_ERROR),
    ],
)
async def test_an_engine_that_breaks_leaves_the_run_to_another_attempt(
    error: BaseException, failure_class: FailureClass
) -> None:
    async def script(_context: RunContext) -> RunResult:
        raise error

    one = await bench(script)
    end = await one.ended()
    assert (end.kind, end.failure_class) == (AttemptKind.ENGINE_ERROR, failure_class)
    record = await one.api.bench.record()
    assert (record.state, record.last_failure_class) == (RunState.RUNNING, failure_class)


@pytest.mark.parametrize("when", ["at its end", "at its deadline", "in a drain", "cancelled"])
async def test_an_engine_that_cannot_be_stopped_keeps_its_run_until_the_lease_is_over(when: str) -> None:
    """BR-40"""

    async def script(_context: RunContext) -> RunResult:
        try:
            await one.clock.sleep(5 if when == "at its end" else 1000)
        finally:
            await one.clock.sleep(1)
            raise EngineStillRunning("the job's process still lives")

    one = await bench(script)
    task = asyncio.create_task(one.attempt(timeout=timedelta(seconds=20)))
    await one.clock.advance(4)
    if when == "in a drain":
        one.stop.set()
    elif when == "cancelled":
        task.cancel()
    await one.clock.advance(40)
    with pytest.raises(EngineStillRunning):
        await task
    record = await one.api.bench.record()
    assert (record.state, record.leased(one.clock.now())) == (RunState.RUNNING, True)


async def test_a_second_attempt_goes_on_with_the_sequence_of_the_first() -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    one.stop.set()
    await one.clock.advance(1)
    await task
    two = AttemptBench(one.api, completes())
    end = await two.ended()
    assert (end.kind, end.attempt) == (AttemptKind.DONE, 2)
    sequences = [event["sequence"] for batch in one.api.batches for event in batch]
    assert sequences == list(range(len(sequences)))


@pytest.mark.parametrize("after", [0.0, 5.0, 49.0])
async def test_a_cancelled_attempt_leaves_nothing_running(after: float) -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(after)
    task.cancel()
    await one.clock.advance(0)
    assert task.cancelled()
    assert one.engine.running == 0


def _down_from(moment: float, one: AttemptBench) -> Callable[[dict[str, Any]], CallbackUnavailable | None]:
    return lambda _body: CallbackUnavailable("down") if one.clock.monotonic() >= moment else None


async def test_an_api_that_comes_back_before_the_lease_ends_costs_nothing() -> None:
    async def script(context: RunContext) -> RunResult:
        for number in range(100):
            await context.emit("chunk", number)
            await one.clock.sleep(1)
        return RunResult(ProgressStatus.COMPLETED, output="done")

    one = await bench(script)
    down = _down_from(20, one)
    one.api.before = lambda body: down(body) if one.clock.monotonic() < 90 else None
    end = await one.ended(timeout=timedelta(seconds=200))
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.SUCCEEDED)
    events = [event for batch in one.api.batches for event in batch]
    assert [event["payload"] for event in events if event["event_type"] == "chunk"] == list(range(100))
