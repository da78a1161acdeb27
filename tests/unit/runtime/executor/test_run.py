"""One run: the order of its stream in every ending, and what its caller and the API are told."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract.errors import HoldfastError
from runtime.contract.states import FailureClass, ProgressStatus
from runtime.execution.answer import failed
from runtime.execution.callback_messages import CallbackUnavailable
from runtime.execution.tasks import end
from runtime.executor.channel import ChannelRules
from runtime.executor.ending import Stop
from runtime.ports.engine import RunContext, RunResult
from tests.support.executor_bench import RunBench
from tests.support.scripted_engine import Script, completes, until_cancelled


async def ticks(context: RunContext) -> RunResult:
    for number in range(3):
        await context.emit("tick", number)
    return RunResult(ProgressStatus.COMPLETED, output={"n": 3})


async def user_error(context: RunContext) -> RunResult:
    await context.emit("tick", 1)
    return failed("no such order", status_code=404)


async def crash(context: RunContext) -> RunResult:
    for number in range(3):
        await context.emit("tick", number)
    raise ZeroDivisionError


async def unavailable(_context: RunContext) -> RunResult:
    raise HoldfastError("no process could be forked", code="process_unavailable")


async def cancels_itself(_context: RunContext) -> RunResult:
    raise asyncio.CancelledError


async def deaf(_context: RunContext) -> RunResult:
    await asyncio.Event().wait()
    raise AssertionError


def emits(value: object, kind: str = "tick") -> Script:
    async def script(context: RunContext) -> RunResult:
        await context.emit(kind, value)
        return RunResult(ProgressStatus.COMPLETED)

    return script


CYCLE: list[object] = []
CYCLE.append(CYCLE)
STARTED, DONE = ["run_initiated", "log"], ["log", "completed"]
BROKE = ["error", "completed"]

NO_ENGINE = {"status_code": 503, "failure_class": "no_worker_template", "current_step": "rejected:engine"}
LATE = {"state": "expired", "status_code": 504, "failure_class": "framework_timeout", "log_level": 4}
REFUSED = {"state": "failed", "failure_class": "framework_error", "log_level": 0}
THREE = ["tick", "tick", "tick"]

ENDINGS: list[tuple[str, Script | None, list[str], dict[str, Any]]] = [
    ("completed", ticks, [*STARTED, *THREE, *DONE], {"state": "succeeded", "status_code": 200, "result": {"n": 3}}),
    ("user error", user_error, [*STARTED, "tick", *BROKE], {**REFUSED, "status_code": 404, "error": "no such order"}),
    ("crash", crash, [*STARTED, *THREE, *BROKE], {**REFUSED, "error": "engine_error: ZeroDivisionError"}),
    ("no process", unavailable, [*STARTED, *BROKE], {"state": "failed", "failure_class": "activation_timeout"}),
    ("cancelled", cancels_itself, [*STARTED, *BROKE], {**REFUSED, "error": "engine_error: CancelledError"}),
    ("no engine", None, ["run_initiated", *BROKE], {**NO_ENGINE, "state": "failed", "log_level": 4}),
    ("deadline", deaf, [*STARTED, *BROKE], LATE),
    ("late cancel", until_cancelled, [*STARTED, *BROKE], LATE),
    ("NaN", emits(float("nan")), [*STARTED, *BROKE], {"state": "failed"}),
    ("bytes", emits(b"x"), [*STARTED, *BROKE], {"state": "failed"}),
    ("cycle", emits(CYCLE), [*STARTED, *BROKE], {"state": "failed"}),
    ("name with a newline", emits(1, "tick\ndata: x"), [*STARTED, *BROKE], {"state": "failed"}),
    ("output is no JSON", completes(object()), [*STARTED, *BROKE], REFUSED),
    ("output too large", completes("x" * 300_000), [*STARTED, *BROKE], {"failure_class": "result_store_error"}),
]


@pytest.mark.parametrize(("script", "types", "last"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
async def test_a_stream_has_its_order_and_one_last_event_in_every_ending(
    script: Script | None, types: list[str], last: dict[str, Any]
) -> None:
    """BR-67."""
    bench = RunBench(script)
    ended = await bench.ended()
    events = bench.stream()
    assert [event["event_type"] for event in events] == types
    payload = events[-1]["payload"]
    assert {name: payload.get(name) for name in last} == last
    assert payload["status"] == ("completed" if payload["state"] == "succeeded" else "failed")
    assert "callback_failed" not in payload
    assert bench.api.end.status.value == {"succeeded": "completed", "expired": "timeout"}.get(
        payload["state"], "failed"
    )
    assert bench.api.types == [kind for kind in types if kind not in {"run_initiated", "completed"}]
    assert ended.reported
    assert bench.channel.ended
    assert bench.lost() == 0


async def test_the_deadline_is_reported_inside_the_margin_even_where_nothing_answers() -> None:
    """BR-74: engine, events and end together stay inside 30 s."""
    bench = RunBench(deaf, seconds=1)
    bench.start()
    await bench.clock.advance(0.5)
    bench.api.gate.clear()
    ended = await bench.ended()
    assert bench.clock.monotonic() <= 1 + 30
    assert (ended.state.value, ended.reported) == ("expired", False)
    last = bench.stream()[-1]
    assert (last["event_type"], last["payload"]["callback_failed"]) == ("completed", True)


STOPS = [
    (Stop.CALLER_LEFT, {"status": "cancelled", "state": "cancelled", "status_code": 499}),
    (Stop.CANCEL_REQUESTED, {"status": "cancelled", "state": "cancelled"}),
    (Stop.DRAINING, {"status": "failed", "state": "failed", "error": "executor draining", "status_code": 503}),
    (Stop.LEASE_LOST, {"status": "failed", "failure_class": "dispatch_error"}),
    (Stop.SLOW_CONSUMER, {"status": "failed", "failure_class": "backpressure"}),
]


@pytest.mark.parametrize("script", [until_cancelled, deaf])
@pytest.mark.parametrize(("why", "last"), STOPS)
async def test_a_run_that_is_stopped_says_why_and_leaves_nothing(
    why: Stop, last: dict[str, Any], script: Script
) -> None:
    bench = RunBench(script)
    bench.start()
    await bench.clock.advance(1)
    bench.run.stop(why)
    bench.run.stop(Stop.CALLER_LEFT)
    await bench.ended(3)
    assert bench.engine is not None
    assert bench.engine.running == 0
    events = bench.stream()
    assert [event["event_type"] for event in events] == [*STARTED, *BROKE]
    assert {name: events[-1]["payload"].get(name) for name in last} == last


async def test_a_run_that_completes_while_it_is_stopped_is_completed() -> None:
    async def just_in_time(context: RunContext) -> RunResult:
        await context.cancelled.wait()
        return RunResult(ProgressStatus.COMPLETED, output=1)

    bench = RunBench(just_in_time)
    bench.start()
    await bench.clock.advance(1)
    bench.run.stop(Stop.DRAINING)
    assert (await bench.ended(2)).state.value == "succeeded"


async def test_a_drain_waits_for_no_report_longer_than_it_can() -> None:
    """BR-107: the whole end of a run takes less than the drain has."""
    bench = RunBench(deaf)
    bench.api.gate.clear()
    bench.start()
    await bench.clock.advance(5)
    bench.run.stop(Stop.DRAINING)
    ended = await bench.ended(4)
    assert not ended.reported


async def test_a_drain_shortens_a_report_that_is_already_on_its_way() -> None:
    bench = RunBench(completes(1))
    bench.api.gate.clear()
    bench.start()
    await bench.clock.advance(2)
    bench.run.stop(Stop.DRAINING)
    assert (await bench.ended(3)).state.value == "succeeded"


async def test_a_reader_that_takes_nothing_fails_its_run_after_the_stall_limit() -> None:
    """BR-72."""

    async def endless(context: RunContext) -> RunResult:
        while not context.cancelled.is_set():
            await context.emit("tick", "x" * 10_000)
        return RunResult(ProgressStatus.CANCELLED)

    bench = RunBench(endless, rules=ChannelRules(events=16, stall=timedelta(seconds=5)))
    ended = await bench.ended(10)
    assert (ended.result.error or "").startswith("slow_consumer")
    assert ended.result.failure_class is FailureClass.BACKPRESSURE
    assert [event["event_type"] for event in bench.stream()] == [*STARTED, *["tick"] * 14, *BROKE]


async def test_an_engine_that_emits_without_end_and_without_waiting_leaves_others_their_turn() -> None:
    async def chatter(context: RunContext) -> RunResult:
        while not context.cancelled.is_set():
            await context.emit("progress", {"progress": 1})
        return RunResult(ProgressStatus.CANCELLED)

    bench = RunBench(chatter)
    bench.start()
    await bench.clock.advance(0)
    bench.run.stop(Stop.CALLER_LEFT)
    assert (await bench.ended(5)).state.value == "cancelled"


async def test_a_run_that_is_cut_off_from_outside_still_says_completed_once() -> None:
    bench = RunBench(deaf)
    bench.start()
    await bench.clock.advance(1)
    assert bench.task is not None
    await end(bench.task)
    assert bench.task.cancelled()
    assert [event["event_type"] for event in bench.stream()] == [*STARTED, *BROKE]


async def test_no_failure_of_a_callback_fails_the_run() -> None:
    """BR-74."""
    bench = RunBench(ticks)
    bench.api.fault = lambda _kind, _request: CallbackUnavailable("status 500")
    ended = await bench.ended()
    assert (ended.state.value, ended.reported) == ("succeeded", False)
    assert b'"callback_failed":true' in ended.answer()
    told = bench.stream()
    assert told[-3]["payload"] == {"level": "warning", "message": "1 events were not recorded"}
    assert told[-1]["payload"]["events_dropped"] == bench.lost() == 6, "and nothing that came after it"


async def test_progress_moves_the_record_and_the_owners_wish_stops_the_run() -> None:
    async def reports(context: RunContext) -> RunResult:
        await context.emit("progress", {"progress": 41.5, "current_step": "half"})
        return await until_cancelled(context)

    bench = RunBench(reports, seconds=600)
    bench.start()
    await bench.clock.advance(49)
    bench.api.cancel_requested = True
    ended = await bench.ended(5)
    assert ended.state.value == "cancelled"
    renewal = bench.api.reports[-2]
    assert (renewal.status, renewal.progress, renewal.current_step) == (ProgressStatus.RUNNING, 41, "half")


async def test_a_run_that_is_not_this_calls_any_more_is_stopped_and_not_reported() -> None:
    bench = RunBench(until_cancelled, seconds=600)
    bench.start()
    await bench.clock.advance(10)
    bench.api.held = False
    ended = await bench.ended(60)
    assert (ended.result.error or "").startswith("lease lost")
    assert not ended.reported
    assert all(report.status is ProgressStatus.RUNNING for report in bench.api.reports)
