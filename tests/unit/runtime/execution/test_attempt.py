"""One attempt against the real callbacks of the API, on a moved clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import FailureClass, ProgressStatus, RunState
from runtime.execution.answer import failed, timed_out
from runtime.execution.callback_messages import CallbackRefused, CallbackUnavailable
from runtime.execution.outcome import AttemptKind
from runtime.ports.engine import RunContext, RunResult
from tests.support.attempt_bench import bench
from tests.support.run_api import job


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


async def test_a_run_that_is_to_be_cancelled_before_its_lease_is_taken_never_starts_its_engine() -> None:
    one = await bench()
    await one.api.bench.lease("other", lease_duration_ms=1000)
    await one.api.bench.cancel()
    end = await one.ended()
    assert (end.kind, end.state) == (AttemptKind.DONE, RunState.CANCELLED)
    assert one.engine.contexts == []


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


async def test_a_token_is_in_no_repr() -> None:
    assert "a.job.token" not in repr(job())
