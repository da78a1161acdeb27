"""Giving a run up: told to the API where nobody else holds the run, and never claimed without an answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.contract.states import FailureClass, RunState
from runtime.execution.attempt import AttemptTools
from runtime.execution.callback_messages import CallbackError, CallbackRefused, CallbackUnavailable
from runtime.execution.dead_letter import report_dead_letter
from tests.support.run_api import LEASE, RunApi, accepted, job


async def report(api: RunApi, seconds: float = 20) -> bool:
    clock = api.bench.clock
    tools = AttemptTools(
        clock=clock, connect=lambda _job: api, engine=lambda _name: None, lease=LEASE, park=timedelta(seconds=1)
    )
    return await api.bench.within(
        report_dead_letter(
            job(),
            tools,
            FailureClass.RETRY_EXHAUSTED,
            FailureClass.DISPATCH_ERROR,
            "three attempts\nfailed",
            clock.monotonic() + seconds,
        )
    )


async def test_a_run_that_nobody_holds_is_ended_with_the_true_cause() -> None:
    api = await accepted()
    assert await report(api)
    record = await api.bench.record()
    assert (record.state, record.failure_class, record.last_failure_class, record.error) == (
        RunState.DEAD_LETTERED, FailureClass.RETRY_EXHAUSTED, FailureClass.DISPATCH_ERROR, "three attempts failed",
    )  # fmt: skip


async def test_a_second_report_finds_the_run_ended() -> None:
    api = await accepted()
    assert await report(api)
    assert await report(api)


async def test_a_run_that_succeeded_stays_as_it_is() -> None:
    api = await accepted()
    await api.bench.lease("a")
    await api.bench.progress("a", "completed")
    assert await report(api)
    assert (await api.bench.record()).state is RunState.SUCCEEDED


async def test_a_run_that_another_attempt_holds_is_left_to_it() -> None:
    api = await accepted()
    await api.bench.lease("other")
    assert not await report(api)
    assert (await api.bench.record()).state is RunState.RUNNING


@pytest.mark.parametrize("error", [CallbackUnavailable("down"), CallbackRefused("no", status=403)])
async def test_a_report_that_was_not_taken_is_not_claimed(error: CallbackError) -> None:
    api = await accepted()
    api.before = lambda _body: error
    assert not await report(api)


async def test_an_api_that_comes_back_in_time_is_told() -> None:
    api = await accepted()
    down = api.bench.clock.monotonic() + 10
    api.before = lambda _body: CallbackUnavailable("down") if api.bench.clock.monotonic() < down else None
    assert await report(api)
