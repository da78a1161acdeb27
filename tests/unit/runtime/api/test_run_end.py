"""Ends that only a caller was told: recorded as an executor means them, and told on as they are recorded."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.executor_errors import ExecutorBroken, ExecutorError, ExecutorRefused, ExecutorUnavailable
from runtime.api.payloads import Payloads
from runtime.api.run_end import RunEnd, completed_message
from runtime.contract.states import FailureClass, ProgressStatus, RunMode, RunState
from runtime.executor.ending import ending
from runtime.ports.engine import RunResult
from tests.support.api_bench import ApiBench, request
from tests.support.run_api import LEASE

TOKEN = "lease"
values = st.recursive(st.booleans() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
results = st.one_of(
    st.builds(
        RunResult, st.just(ProgressStatus.COMPLETED), output=values, status_code=st.none() | st.integers(200, 399)
    ),
    st.builds(
        RunResult,
        st.sampled_from([ProgressStatus.FAILED, ProgressStatus.TIMEOUT]),
        status_code=st.none() | st.integers(400, 599),
        error=st.text(max_size=50),
        failure_class=st.sampled_from([FailureClass.FRAMEWORK_ERROR, FailureClass.NO_WORKER_TEMPLATE]),
    ),
    st.builds(RunResult, st.just(ProgressStatus.CANCELLED), error=st.text(max_size=50)),
)


async def begun() -> tuple[ApiBench, RunEnd]:
    bench = ApiBench()
    await bench.submissions.begin(replace(request(), mode=RunMode.SYNC), "shop", TOKEN, LEASE)
    return bench, RunEnd(bench.callbacks, bench.runs, Payloads(bench.documents), bench.clock)


def shown(data: bytes) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(data)
    for name in ("callback_failed", "duration_ms", "log_level"):
        payload.pop(name, None)
    return payload


@given(results)
def test_an_end_is_recorded_as_its_executor_told_it_and_told_on_alike(result: RunResult) -> None:
    async def scenario() -> None:
        bench, run_end = await begun()
        told = ending("r1", result, 5).last_event()
        ended = await run_end.record("r1", run_end.as_told("r1.1", TOKEN, json.loads(told)))
        assert ended is not None
        assert (await bench.record()).ended
        payload = json.loads(completed_message(*ended).data)["payload"]
        assert shown(json.dumps(payload).encode()) == shown(told)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "code"), [(ExecutorUnavailable("x"), 503), (ExecutorRefused("x"), 502), (ExecutorBroken("x"), 502)]
)
async def test_a_run_that_its_executor_did_not_end_has_failed_in_the_handing_over(
    error: ExecutorError, code: int
) -> None:
    bench, run_end = await begun()
    await run_end.record("r1", run_end.as_failed("r1.1", TOKEN, error))
    record = await bench.record()
    assert (record.state, record.status_code) == (RunState.FAILED, code)
    assert (record.failure_class, record.error) == (FailureClass.DISPATCH_ERROR, error.line())


@given(st.dictionaries(st.sampled_from(["state", "error", "failure_class", "status_code", "result"]), values))
def test_whatever_was_told_the_run_ends(told: dict[str, object]) -> None:
    async def scenario() -> None:
        bench, run_end = await begun()
        ended = await run_end.record("r1", run_end.as_told("r1.1", TOKEN, told))
        assert ended is not None
        assert (await bench.record()).ended

    asyncio.run(scenario())


async def test_whoever_was_first_stays() -> None:
    bench, run_end = await begun()
    await bench.progress(TOKEN, "completed", result=7)
    ended = await run_end.record("r1", run_end.as_failed("r1.1", TOKEN, ExecutorBroken("late")))
    assert ended is not None
    assert (ended[0].state, ended[1]) == (RunState.SUCCEEDED, b"7")


async def test_a_run_whose_record_is_gone_has_no_end_to_tell() -> None:
    _, run_end = await begun()
    assert await run_end.record("r2", run_end.as_failed("r2.1", TOKEN, ExecutorBroken("x"))) is None
