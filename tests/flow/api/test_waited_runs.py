"""Runs whose callers wait for the result: a real API and a real executor, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.adapters.clock import ManualClock
from runtime.api import executions, sync_run
from runtime.api.app import WATCH
from runtime.api.cancellation import HELD
from runtime.contract.states import ProgressStatus
from runtime.execution.answer import timed_out
from runtime.identity.job_token import JobClaims, JobVerifier
from runtime.ports.engine import RunContext, RunResult
from tests.support.faulty_documents import Fault
from tests.support.job_keys import pair
from tests.support.scripted_engine import until_cancelled
from tests.support.served_executor import ServedExecutor
from tests.support.served_pair import WaitedApi, served_pair

Pair = tuple[WaitedApi, ServedExecutor]


@pytest.fixture
async def both() -> AsyncIterator[Pair]:
    async with served_pair() as it:
        yield it


def held(executor: ServedExecutor) -> asyncio.Event:
    """Adds the engine `waits`, whose runs complete with `done` once the event is set."""
    go_on = asyncio.Event()

    async def waits(context: RunContext) -> RunResult:
        await go_on.wait()
        return RunResult(ProgressStatus.COMPLETED, output="done")

    executor.engine("waits", waits)
    return go_on


async def test_a_caller_gets_the_result_of_its_run(both: Pair) -> None:
    api, executor = both
    status, answer = await api.run(input={"ticks": 3}, labels={"team": "a"})
    assert status == 200
    assert (answer["state"], answer["status_code"], answer["failure_class"]) == ("succeeded", 200, None)
    assert (answer["result"], answer["duplicate"], answer["mode"], answer["attempt"]) == (3, False, "sync", 1)
    assert [entry["state"] for entry in answer["history"]] == ["queued", "running", "succeeded"]
    assert answer == {**await api.record(), "duplicate": False}
    assert api.tokens.audiences == [f"http://127.0.0.1:{executor.port}"], "the token is for the executor's origin"
    assert api.publisher.messages == [], "a run whose caller waits is never queued"


async def _fails(context: RunContext) -> RunResult:
    return RunResult(ProgressStatus.FAILED, status_code=418, error="no coffee here")


async def _overruns(context: RunContext) -> RunResult:
    await asyncio.sleep(context.seconds_left)
    return timed_out()


async def _breaks(context: RunContext) -> RunResult:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("script", "more", "expected"),
    [
        (_fails, {}, ("failed", 418, "framework_error", "no coffee here")),
        (_breaks, {}, ("failed", 502, "framework_error", "engine_error: ZeroDivisionError")),
        (_overruns, {"timeout_seconds": 1}, ("expired", 504, "framework_timeout", "Execution timeout")),
        (None, {}, ("failed", 503, "no_worker_template", "this deployment has no engine 'speaks'")),
    ],
    ids=["user code fails", "an engine breaks", "a deadline passes", "an engine is not there"],
)
async def test_a_run_that_does_not_succeed_is_answered_with_its_object(
    both: Pair, script: Any, more: dict[str, Any], expected: tuple[object, ...]
) -> None:
    api, executor = both
    if script is not None:
        executor.engine("speaks", script)
    status, answer = await api.run(engine="speaks", **more)
    members = ("state", "status_code", "failure_class", "error")
    assert (status, *(answer[name] for name in members)) == (200, *expected)
    record = await api.record()
    assert tuple(record[name] for name in members) == expected


async def test_a_wait_that_ends_first_leaves_the_run_going_on(both: Pair) -> None:
    api, executor = both
    go_on = held(executor)
    async with api.post({"run_id": "r1", "engine": "waits", "mode": "sync", "wait_seconds": 1}) as response:
        problem = await response.json(content_type=None)
        assert (response.status, problem["code"], problem["run_id"]) == (504, "wait_ended", "r1")
        assert (problem["state"], response.headers["Location"]) == ("running", "/v1/runs/r1")
    again = asyncio.create_task(api.run(engine="waits"))
    go_on.set()
    status, answer = await again
    assert (status, answer["result"], answer["duplicate"]) == (200, "done", True), "a repeated request waits again"
    assert len(executor.engines["waits"].contexts) == 1


async def test_every_caller_of_one_id_gets_the_one_result(both: Pair) -> None:
    api, executor = both
    go_on = held(executor)
    callers = [asyncio.create_task(api.run(engine="waits")) for _ in range(20)]
    await executor.begun("waits")
    go_on.set()
    answers = await asyncio.gather(*callers, api.run(engine="waits"))
    assert {(status, answer["result"]) for status, answer in answers} == {(200, "done")}
    assert sum(not answer["duplicate"] for _, answer in answers) == 1
    assert len(executor.engines["waits"].contexts) == 1
    assert len(api.tokens.audiences) == 1


async def test_two_instances_of_the_api_hand_a_run_over_once(both: Pair) -> None:
    first, executor = both
    go_on = held(executor)
    second = WaitedApi(executor.port, memory=first.memory)
    await second.start()
    callers = [asyncio.create_task(api.run(engine="waits")) for api in (first, second) * 5]
    await executor.begun("waits")
    go_on.set()
    answers = await asyncio.gather(*callers)
    await second.stop()
    assert {(status, answer["result"]) for status, answer in answers} == {(200, "done")}
    assert len(executor.engines["waits"].contexts) == 1


async def test_another_request_under_the_same_id_is_a_conflict(both: Pair) -> None:
    api, _ = both
    await api.run(input={"ticks": 1})
    others: list[dict[str, Any]] = [{"input": {"ticks": 2}}, {"mode": "async"}, {"mode": "stream"}]
    for other in others:
        status, problem = await api.run(**{"input": {"ticks": 1}, **other})
        assert (status, problem["code"]) == (409, "run_id_conflict")
    assert (await api.record())["result"] == 1


async def test_a_caller_that_leaves_leaves_its_run_going_on(both: Pair) -> None:
    api, executor = both
    go_on = held(executor)
    caller = asyncio.create_task(api.run(engine="waits"))
    await executor.begun("waits")
    caller.cancel()
    await asyncio.wait({caller})
    go_on.set()
    assert (await api.ended())["state"] == "succeeded"
    assert (await api.run(engine="waits"))[1]["result"] == "done"


async def test_a_cancellation_reaches_a_run_that_somebody_waits_for(both: Pair) -> None:
    api, executor = both
    executor.engine("stops", until_cancelled)
    caller = asyncio.create_task(api.run(engine="stops"))
    await executor.begun("stops")
    assert await api.cancel() == 202
    status, answer = await caller
    assert (status, answer["state"], answer["status_code"]) == (200, "cancelled", 499)
    assert await api.cancel() == 409


async def test_every_run_hears_of_its_cancellation_within_a_second_also_where_the_api_holds_no_more_questions() -> None:
    """The executor's clock stands still but for that second; the API holds two thirds of the questions."""
    clock, runs = ManualClock(datetime.now(UTC)), HELD + HELD // 2
    async with served_pair(clock=clock) as (api, executor):
        executor.engine("stops", until_cancelled)
        callers = [asyncio.create_task(api.run(f"r{number}", engine="stops")) for number in range(runs)]
        await executor.begun("stops", runs)
        await clock.advance(1)  # a run asks only once it is not a short one
        async with asyncio.timeout(30):
            while api.app[WATCH].waits < HELD:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)
        assert set(await asyncio.gather(*(api.cancel(f"r{number}") for number in range(runs)))) == {202}
        await clock.advance(1)
        answers = await asyncio.gather(*callers)
        assert {answer["state"] for _, answer in answers} == {"cancelled"}


async def test_the_executor_gets_a_job_that_is_signed_whole_for_as_long_as_it_may_take() -> None:
    seen: list[dict[str, Any]] = []

    class Spy(JobVerifier):
        def verify(self, payload: Mapping[str, object], now: datetime) -> JobClaims:
            claims = super().verify(payload, now)
            seen.append({**payload, "life": claims.expires_at - now})
            return claims

    async with served_pair(verifier=Spy(pair().keys.public_pem, "backend-es256-v1")) as (api, _):
        await api.run(timeout_seconds=100)
    (job,) = seen
    assert (job["execution_mode"], job["timeout_ms"], job["max_attempts"]) == ("sync", 100_000, 1)
    assert len(job["lease_token"]) == 32
    assert timedelta(seconds=100) < job["life"] < timedelta(seconds=1000)


@pytest.mark.parametrize("calls", [1, 2, 5])
async def test_a_store_that_does_not_answer_for_a_while_does_not_end_a_wait(
    both: Pair, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """The first call reads the record after the run's end, the next one its result."""
    monkeypatch.setattr(sync_run, "POLL_SECONDS", 0.05)
    api, _ = both
    left = [Fault.DOWN, None, Fault.DOWN] if calls == 2 else [Fault.DOWN] * calls

    def choose(_number: int, kind: str, _writes: object) -> Fault | None:
        has_ended = kind == "get" and api.count("executor_calls_total", result="completed")
        return left.pop() if has_ended and left else None

    api.documents.choose = choose
    status, answer = await api.run()
    assert (status, answer["state"], answer["result"], left) == (200, "succeeded", 3, [])


async def test_a_caller_that_gave_no_id_finds_its_run_when_the_store_is_away_to_the_end_of_its_wait(
    both: Pair,
) -> None:
    api, _ = both

    def choose(_number: int, kind: str, _writes: object) -> Fault | None:
        return Fault.DOWN if kind == "get" and api.count("executor_calls_total", result="completed") else None

    api.documents.choose = choose
    async with api.post({"engine": "counts", "mode": "sync", "wait_seconds": 1}) as response:
        problem = await response.json(content_type=None)
        assert (response.status, problem["code"]) == (503, "store_unavailable")
        assert (response.headers["Location"], "Retry-After" in response.headers) == (
            f"/v1/runs/{problem['run_id']}",
            True,
        )
    api.documents.choose = lambda _number, _kind, _writes: None
    assert (await api.record(problem["run_id"]))["result"] == 3


async def test_a_process_that_drains_sends_its_callers_to_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "DRAIN_SECONDS", 0.1)
    async with served_pair() as (api, executor):
        go_on = held(executor)
        caller = asyncio.create_task(api.run(engine="waits"))
        await executor.begun("waits")
        api.lifecycle.drain()
        status, problem = await caller
        assert (status, problem["code"], problem["run_id"]) == (503, "draining", "r1")
        async with asyncio.timeout(30):
            await api.lifecycle.settled(30)
        assert api.count("executor_calls_total", result="left") == 1
        go_on.set()
        await executor.idle()
        # The executor reports by itself, to whichever instance takes it.
        assert (await api.ended())["state"] == "succeeded"
