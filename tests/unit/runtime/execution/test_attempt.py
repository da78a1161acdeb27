"""One attempt against the real callbacks of the API, on a moved clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import FailureClass, ProgressStatus, RunState
from runtime.execution.answer import failed, timed_out
from runtime.execution.attempt import AttemptTools, run_attempt
from runtime.execution.callback_messages import CallbackRefused, CallbackUnavailable
from runtime.execution.outcome import AttemptEnd, AttemptKind
from runtime.execution.process.starter import ProcessUnavailable
from runtime.ports.engine import RunContext, RunResult
from tests.support.run_api import LEASE, RunApi, accepted, job
from tests.support.scripted_engine import Script, ScriptedEngine, completes, until_cancelled


class Bench:
    """One attempt, its API and its engine."""

    def __init__(self, api: RunApi, script: Script) -> None:
        self.api = api
        self.clock = api.bench.clock
        self.engine = ScriptedEngine(script)
        self.stop = asyncio.Event()
        self.tools = AttemptTools(
            clock=self.clock,
            connect=lambda _job: api,
            engine={"scripted": self.engine}.get,
            lease=LEASE,
            park=timedelta(seconds=180),
        )

    async def attempt(self, seconds: float = 570, **changes: Any) -> AttemptEnd:
        deadline = self.clock.monotonic() + seconds
        return await run_attempt(job(**changes), self.tools, deadline=deadline, stop=self.stop)

    async def ended(self, **changes: Any) -> AttemptEnd:
        """The end of an attempt that has all the time it needs."""
        return await self.api.bench.within(self.attempt(**changes))

    async def types(self) -> list[str]:
        record = await self.api.bench.record()
        return [str(event["event_type"]) for event in await self.api.bench.log.read(record, -1)]


async def bench(script: Script | None = None, **options: Any) -> Bench:
    return Bench(await accepted(**options), script or completes({"n": 1}))


async def test_a_run_that_completes_is_recorded_with_its_events_before_its_end() -> None:
    async def script(context: RunContext) -> RunResult:
        await context.emit("chunk", {"text": "a"})
        return RunResult(ProgressStatus.COMPLETED, output={"answer": 42})

    one = await bench(script)
    end = await one.ended()
    assert (end.kind, end.state, end.failure_class, end.attempt) == (AttemptKind.DONE, RunState.SUCCEEDED, None, 1)
    assert await one.types() == ["log", "chunk", "log"]
    assert [*one.api.calls[-1]][:3] == ["job_id", "lease_token", "status"], "the end is the last thing that is sent"
    assert one.api.calls[-1]["result"] == {"answer": 42}
    assert one.engine.contexts[0].seconds_left == 60


@pytest.mark.parametrize(
    ("result", "state", "failure_class", "status_code", "last"),
    [
        (RunResult(ProgressStatus.COMPLETED, output=1), RunState.SUCCEEDED, None, 200, "log"),
        (RunResult(ProgressStatus.COMPLETED, status_code=201), RunState.SUCCEEDED, None, 201, "log"),
        (failed("no"), RunState.FAILED, FailureClass.FRAMEWORK_ERROR, 502, "error"),
        (failed("no", status_code=422), RunState.FAILED, FailureClass.FRAMEWORK_ERROR, 422, "error"),
        (timed_out(), RunState.EXPIRED, FailureClass.FRAMEWORK_TIMEOUT, 504, "error"),
        (RunResult(ProgressStatus.CANCELLED), RunState.CANCELLED, None, 499, "error"),
        (RunResult(ProgressStatus.RUNNING), RunState.FAILED, FailureClass.FRAMEWORK_ERROR, 502, "error"),
        (RunResult(ProgressStatus.COMPLETED, output=float("nan")), RunState.FAILED,
         FailureClass.FRAMEWORK_ERROR, 502, "error"),
        (RunResult(ProgressStatus.COMPLETED, output="x" * INLINE_PAYLOAD_BYTES), RunState.FAILED,
         FailureClass.RESULT_STORE_ERROR, 502, "error"),
    ],
)  # fmt: skip
async def test_each_outcome_of_an_engine_has_its_state_class_and_status(
    result: RunResult, state: RunState, failure_class: FailureClass | None, status_code: int, last: str
) -> None:
    """BR-67: exactly one last word, also where the result cannot be written as JSON."""

    async def script(_context: RunContext) -> RunResult:
        return result

    one = await bench(script)
    end = await one.ended()
    record = await one.api.bench.record()
    assert (end.kind, end.state, end.failure_class) == (AttemptKind.DONE, state, failure_class)
    assert (record.state, record.failure_class, record.status_code) == (state, failure_class, status_code)
    assert await one.types() == ["log", last]


async def test_an_unknown_engine_fails_the_run_for_good() -> None:
    one = await bench()
    end = await one.ended(engine="nobody")
    record = await one.api.bench.record()
    assert (end.kind, end.state, end.failure_class) == (
        AttemptKind.DONE, RunState.FAILED, FailureClass.NO_WORKER_TEMPLATE,
    )  # fmt: skip
    assert record.status_code == 503
    assert "nobody" in (record.error or "")


async def test_an_attempt_without_time_asks_for_nothing() -> None:
    one = await bench()
    end = await one.attempt(seconds=30)
    assert end.kind is AttemptKind.NOT_ENOUGH_TIME
    assert one.api.calls == []


async def test_the_engine_gets_what_is_left_of_the_delivery_where_that_is_less_than_its_timeout() -> None:
    one = await bench()
    await one.api.bench.within(one.attempt(seconds=50))
    assert one.engine.contexts[0].seconds_left == 20


async def test_an_api_that_is_down_leaves_the_run_untouched() -> None:
    one = await bench()
    one.api.before = lambda _body: CallbackUnavailable("down")
    end = await one.ended()
    assert (end.kind, end.attempt) == (AttemptKind.API_UNAVAILABLE, None)
    assert one.engine.contexts == []


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_token_is_refused_for_good(status: int) -> None:
    one = await bench()
    one.api.before = lambda _body: CallbackRefused("no", status=status)
    assert (await one.ended()).kind is AttemptKind.REFUSED


async def test_a_run_that_has_ended_is_left_alone() -> None:
    one = await bench()
    await one.api.bench.cancel()
    end = await one.ended()
    assert (end.kind, end.state) == (AttemptKind.ALREADY_TERMINAL, RunState.CANCELLED)
    assert one.engine.contexts == []


async def test_a_job_of_an_older_generation_is_left_alone() -> None:
    one = await bench()
    end = await one.ended(job_id="r1.0")
    assert end.kind is AttemptKind.ALREADY_TERMINAL


async def test_a_busy_lease_is_waited_for_until_it_lapses() -> None:
    one = await bench()
    await one.api.bench.lease("other", lease_duration_ms=100_000)
    end = await one.ended()
    assert (end.kind, end.attempt) == (AttemptKind.DONE, 2)
    assert one.clock.monotonic() == pytest.approx(100, abs=16)


async def test_a_lease_that_stays_busy_is_given_up_when_the_park_budget_ends() -> None:
    one = await bench()
    task = asyncio.create_task(one.attempt())
    for _ in range(19):
        await one.api.bench.lease("other")
        await one.clock.advance(10)
    end = await task
    assert end.kind is AttemptKind.LEASE_BUSY
    assert one.engine.contexts == []


async def test_a_lease_that_comes_free_too_late_for_a_whole_run_is_left_to_the_next_delivery() -> None:
    one = await bench()
    await one.api.bench.lease("other", lease_duration_ms=100_000)
    end = await one.ended(timeout=timedelta(seconds=500))
    assert end.kind is AttemptKind.LEASE_BUSY
    assert (await one.api.bench.record()).attempt == 1, "nothing was taken that could not be worked"
    assert one.clock.monotonic() == pytest.approx(180, abs=1), "the delivery parks for all of its budget"


async def test_a_drain_ends_the_wait_for_a_busy_lease() -> None:
    one = await bench()
    await one.api.bench.lease("other")
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(20)
    one.stop.set()
    await one.clock.advance(0)
    assert (await task).kind is AttemptKind.STOPPED


async def test_the_lease_is_renewed_while_the_engine_works() -> None:
    async def script(_context: RunContext) -> RunResult:
        await one.clock.sleep(390)
        return RunResult(ProgressStatus.COMPLETED)

    one = await bench(script)
    end = await one.ended(timeout=timedelta(seconds=500))
    assert end.kind is AttemptKind.DONE
    assert one.api.statuses == ["running"] * 8 + ["completed"], "one to take it, one every 50 s to keep it"


async def test_renewals_carry_the_progress_that_the_job_reports() -> None:
    async def script(context: RunContext) -> RunResult:
        await context.emit("progress", {"progress": 40, "current_step": "half\nway"})
        await one.clock.sleep(55)
        return RunResult(ProgressStatus.COMPLETED)

    one = await bench(script)
    await one.ended()
    renewal = [body for body in one.api.calls if body.get("status") == "running"][1]
    assert (renewal["progress"], renewal["current_step"]) == (40, "half way")


async def test_a_request_of_the_owner_to_cancel_reaches_the_engine_with_the_next_renewal() -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(10)
    await one.api.bench.cancel()
    await one.clock.advance(45)
    end = await task
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.CANCELLED)
    assert one.engine.running == 0


async def test_a_run_that_is_to_be_cancelled_before_its_lease_is_taken_never_starts_its_engine() -> None:
    one = await bench()
    await one.api.bench.lease("other", lease_duration_ms=1000)
    await one.api.bench.cancel()
    end = await one.ended()
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.CANCELLED)
    assert one.engine.contexts == []


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


async def test_an_end_whose_answer_is_lost_is_repeated_and_found_done() -> None:
    one = await bench()
    lost: list[object] = []

    def after(body: dict[str, Any]) -> CallbackUnavailable | None:
        if body.get("status") == "completed" and len(lost) < 3:
            lost.append(body)
            return CallbackUnavailable("lost")
        return None

    one.api.after = after
    end = await one.ended()
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.SUCCEEDED)
    assert one.api.statuses[-4:] == ["completed"] * 4


async def test_an_end_that_is_never_acknowledged_is_not_taken_for_done() -> None:
    one = await bench()
    one.api.before = lambda body: CallbackUnavailable("down") if body.get("status") == "completed" else None
    end = await one.ended()
    assert end.kind is AttemptKind.UNACKNOWLEDGED


async def test_a_run_that_somebody_else_ended_meanwhile_keeps_that_end() -> None:
    async def script(_context: RunContext) -> RunResult:
        await one.clock.sleep(5)
        return RunResult(ProgressStatus.COMPLETED)

    one = await bench(script)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    await one.api.bench.progress(one.api.calls[0]["lease_token"], "failed", error="by another")
    await one.clock.advance(5)
    end = await task
    assert end.kind in (AttemptKind.ALREADY_TERMINAL, AttemptKind.LEASE_LOST)
    assert (await one.api.bench.record()).state is RunState.FAILED


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_result_that_the_api_refuses_ends_the_run_as_not_kept(status: int) -> None:
    one = await bench()
    one.api.before = lambda body: CallbackRefused("no", status=status) if "result" in body else None
    end = await one.ended()
    assert (end.kind, end.state, end.failure_class) == (
        AttemptKind.DONE, RunState.FAILED, FailureClass.RESULT_STORE_ERROR,
    )  # fmt: skip


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


async def test_a_second_attempt_goes_on_with_the_sequence_of_the_first() -> None:
    one = await bench(until_cancelled)
    task = asyncio.create_task(one.attempt())
    await one.clock.advance(1)
    one.stop.set()
    await one.clock.advance(1)
    await task
    two = Bench(one.api, completes())
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


async def test_a_token_is_in_no_repr() -> None:
    assert "a.job.token" not in repr(job())


def _down_from(moment: float, one: Bench) -> Callable[[dict[str, Any]], CallbackUnavailable | None]:
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
