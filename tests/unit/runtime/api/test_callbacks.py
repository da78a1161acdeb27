"""What workers are answered: leases, events and endings, and their repetitions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runtime.api.problem import Problem
from runtime.api.report import read_progress
from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import FailureClass, RunState
from tests.support.api_bench import ApiBench
from tests.support.faulty_documents import Fault


async def started(**bench_options: Any) -> ApiBench:
    bench = ApiBench(**bench_options)
    await bench.accept()
    return bench


async def test_a_lease_is_granted_with_all_that_a_worker_needs_to_go_on() -> None:
    bench = await started()
    expires_at = int((bench.clock.now() + timedelta(seconds=150)).timestamp() * 1000)
    assert await bench.lease("a") == {
        "accepted": True,
        "status": "running",
        "lease_acquired": True,
        "lease_ms_left": 150_000,
        "lease_expires_at": expires_at,
        "attempt": 1,
        "next_sequence": 0,
        "cancel_requested": False,
    }


async def test_a_shorter_lease_is_granted_as_asked_and_a_longer_one_is_cut() -> None:
    bench = await started()
    assert (await bench.lease("a", lease_duration_ms=20_000))["lease_ms_left"] == 20_000
    assert (await bench.lease("a", lease_duration_ms=3_600_000))["lease_ms_left"] == 150_000


async def test_a_busy_lease_says_how_long_it_is_held() -> None:
    bench = await started()
    await bench.lease("a")
    await bench.clock.advance(100.5)
    answer = await bench.lease("b")
    assert (answer["accepted"], answer["lease_acquired"], answer["status"]) == (False, False, "running")
    assert answer["lease_ms_left"] == 49_500
    await bench.clock.advance(49.5)
    answer = await bench.lease("b")
    assert (answer["accepted"], answer["attempt"]) == (True, 2)


async def test_the_wall_clock_of_the_api_does_not_decide_who_holds_a_lease() -> None:
    bench = await started()
    await bench.lease("a")
    bench.clock.skew(-3600)
    assert (await bench.lease("b"))["lease_acquired"] is False


async def test_a_repeated_request_for_a_lease_whose_answer_was_lost_is_the_same_attempt() -> None:
    bench = await started()
    bench.documents.choose = lambda number, _kind, _writes: Fault.ANSWER_LOST if number == 4 else None
    answer = await bench.within(bench.lease("a"), step=0.1)
    again = await bench.lease("a")
    assert (answer["attempt"], again["attempt"]) == (1, 1)


async def test_of_many_workers_at_once_one_gets_the_lease() -> None:
    bench = await started()
    answers = await asyncio.gather(*(bench.lease(token) for token in "abcd"))
    assert [answer["lease_acquired"] for answer in answers].count(True) == 1
    assert {answer["attempt"] for answer in answers} == {1}


async def test_a_lease_on_an_ended_run_is_refused_with_its_state() -> None:
    bench = await started()
    await bench.cancel()
    answer = await bench.lease("a")
    assert (answer["accepted"], answer["lease_acquired"], answer["status"]) == (False, False, "cancelled")
    assert "lease_ms_left" not in answer


async def test_a_holder_is_told_that_its_run_is_to_stop() -> None:
    bench = await started()
    await bench.lease("a")
    await bench.cancel()
    assert (await bench.lease("a"))["cancel_requested"] is True


async def test_events_are_kept_once_and_in_order() -> None:
    bench = await started()
    await bench.lease("a")
    assert await bench.events("a", 0, 1) == {"accepted": True, "next_sequence": 2}
    assert await bench.events("a", 0, 1) == {"accepted": True, "next_sequence": 2}
    assert await bench.events("a", 1, 2, 3) == {"accepted": True, "next_sequence": 4}
    events = await bench.log.read(await bench.record(), -1)
    assert [event["sequence"] for event in events] == [0, 1, 2, 3]


@pytest.mark.parametrize("sequences", [(2,), (1, 2), (0, 2)])
async def test_a_hole_is_refused_with_the_sequence_to_go_on_from(sequences: tuple[int, ...]) -> None:
    bench = await started()
    await bench.lease("a")
    with pytest.raises(Problem) as caught:
        await bench.events("a", *sequences)
    assert (caught.value.status, caught.value.code) == (409, "sequence_gap")
    assert caught.value.members["next_sequence"] == 0
    assert await bench.log.read(await bench.record(), -1) == []


async def test_events_under_another_lease_are_refused() -> None:
    bench = await started()
    await bench.lease("a")
    await bench.clock.advance(150)
    await bench.lease("b")
    with pytest.raises(Problem) as caught:
        await bench.events("a", 0)
    assert (caught.value.status, caught.value.code) == (409, "lease_not_current")
    assert await bench.events("b", 0, attempt=2) == {"accepted": True, "next_sequence": 1}


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_events_whose_answer_was_lost_are_kept_once(fault: Fault) -> None:
    bench = await started()
    await bench.lease("a")
    commit = len(bench.documents.calls) + 1
    bench.documents.choose = lambda number, _kind, _writes: fault if number == commit else None
    await bench.within(bench.events("a", 0, 1), step=0.1)
    assert len(await bench.log.read(await bench.record(), -1)) == 2


async def test_an_ending_is_recorded_once_with_its_result() -> None:
    bench = await started()
    await bench.lease("a")
    answer = await bench.progress("a", "completed", result={"sum": 3}, status_code=201)
    assert (answer["accepted"], answer["status"]) == (True, "succeeded")
    again = await bench.progress("a", "completed", result={"sum": 4})
    assert (again["accepted"], again["status"]) == (True, "succeeded")
    record = await bench.record()
    assert (record.has_result, record.status_code) == (True, 201)
    stored = await bench.stored("run_results", "r1")
    assert stored is not None
    assert stored["result"] == b'{"sum":3}'


async def test_an_ending_of_a_stranger_is_refused_with_the_stored_state() -> None:
    bench = await started()
    await bench.lease("a")
    answer = await bench.progress("b", "failed")
    assert (answer["accepted"], answer["status"]) == (False, "running")


async def test_a_late_ending_does_not_replace_the_first() -> None:
    bench = await started()
    await bench.lease("a")
    await bench.progress("a", "completed", result=1)
    answer = await bench.progress("a", "failed", error="late")
    assert (answer["accepted"], answer["status"]) == (False, "succeeded")
    assert (await bench.record()).error is None


async def test_two_different_endings_at_once_leave_one() -> None:
    bench = await started()
    await bench.lease("a")
    answers = await asyncio.gather(bench.progress("a", "completed"), bench.progress("a", "failed"))
    assert [answer["accepted"] for answer in answers].count(True) == 1
    assert answers[0]["status"] == answers[1]["status"]


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_an_ending_whose_answer_was_lost_is_accepted(fault: Fault) -> None:
    bench = await started()
    await bench.lease("a")
    commit = len(bench.documents.calls) + 1
    bench.documents.choose = lambda number, _kind, _writes: fault if number == commit else None
    answer = await bench.within(bench.progress("a", "completed", result=5), step=0.1)
    assert (answer["accepted"], answer["status"]) == (True, "succeeded")


async def test_a_result_that_is_too_large_ends_the_run_as_failed_and_says_why() -> None:
    bench = await started()
    await bench.lease("a")
    for _ in range(2):
        answer = await bench.progress("a", "completed", result="x" * INLINE_PAYLOAD_BYTES)
        assert (answer["accepted"], answer["status"]) == (False, "failed")
    record = await bench.record()
    assert (record.state, record.failure_class) == (RunState.FAILED, FailureClass.RESULT_STORE_ERROR)
    assert "262146 bytes, at most 262144" in str(record.error)
    assert await bench.stored("run_results", "r1") is None


async def test_a_result_at_the_limit_is_kept() -> None:
    bench = await started()
    await bench.lease("a")
    answer = await bench.progress("a", "completed", result="x" * (INLINE_PAYLOAD_BYTES - 2))
    assert answer["accepted"] is True


@pytest.mark.parametrize("result", ["NaN", "[1e999]", "[" * 64 + "]" * 64])
async def test_a_result_that_is_no_json_ends_the_run_truthfully(result: str) -> None:
    bench = await started()
    await bench.lease("a")
    body = f'{{"job_id":"r1.1","lease_token":"a","status":"completed","result":{result}}}'
    await bench.callbacks.progress("r1", read_progress(body.encode()))
    record = await bench.record()
    assert (record.state, record.failure_class) == (RunState.FAILED, FailureClass.RESULT_STORE_ERROR)
    assert "cannot be kept: /result" in str(record.error)


async def test_a_dead_letter_ends_a_run_whose_worker_never_took_the_lease() -> None:
    bench = await started()
    answer = await bench.progress("w", "dead_lettered", last_failure_class="dispatch_error", error="unreadable")
    assert (answer["accepted"], answer["status"]) == (True, "dead_lettered")
    again = await bench.progress("w", "dead_lettered")
    assert (again["accepted"], again["status"]) == (True, "dead_lettered")
    other = await bench.progress("v", "dead_lettered")
    assert other["accepted"] is False


async def test_a_dead_letter_waits_for_a_live_lease_of_another() -> None:
    bench = await started()
    await bench.lease("a")
    answer = await bench.progress("w", "dead_lettered")
    assert (answer["accepted"], answer["status"]) == (False, "running")


async def test_states_that_runs_reach_are_counted_with_their_class() -> None:
    bench = await started()
    await bench.lease("a")
    await bench.progress("a", "failed", error="boom")
    value = bench.metrics.registry.get_sample_value(
        "runs_total", {"state": "failed", "failure_class": "framework_error"}
    )
    assert value == 1
