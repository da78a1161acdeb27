"""The callbacks over a socket: whose token they take, and what they answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from runtime.contract.names import CALLBACK_CANCELLATION_PATH, CALLBACK_EVENTS_PATH, CALLBACK_PROGRESS_PATH
from runtime.ports.documents import Delete, Key
from tests.support.api_bench import event
from tests.support.served_api import KEY, ServedApi
from tests.support.waiting import until


async def test_a_worker_takes_the_lease_reports_events_and_ends_the_run(served: ServedApi) -> None:
    await served.submit("r1")
    code, answer = await served.progress("a", "running", lease_duration_ms=60_000)
    assert code == 200
    assert answer == {
        "accepted": True, "status": "running", "lease_acquired": True, "lease_ms_left": 60_000,
        "lease_expires_at": 1767225660000, "attempt": 1, "next_sequence": 0, "cancel_requested": False,
    }  # fmt: skip
    code, answer = await served.events("a", event("r1", 1, 0), event("r1", 1, 1))
    assert (code, answer) == (200, {"accepted": True, "next_sequence": 2})
    code, answer = await served.progress("a", "completed", result=1)
    assert (code, answer["accepted"], answer["status"]) == (200, True, "succeeded")
    assert await served.stored() == ["runs/r1", "run_payloads/r1", "run_results/r1", "run_events/r1.000000000000"]


async def test_a_gap_and_a_lost_lease_are_conflicts_with_the_next_sequence(served: ServedApi) -> None:
    await served.submit("r1")
    await served.progress("a", "running")
    code, problem = await served.events("a", event("r1", 1, 3))
    assert (code, problem["code"], problem["next_sequence"]) == (409, "sequence_gap", 0)
    code, problem = await served.events("b", event("r1", 1, 0))
    assert (code, problem["code"], problem["next_sequence"]) == (409, "lease_not_current", 0)


@pytest.mark.parametrize("path", [CALLBACK_PROGRESS_PATH, CALLBACK_EVENTS_PATH])
async def test_a_token_speaks_for_its_own_job_only(served: ServedApi, path: str) -> None:
    await served.submit("r1")
    await served.submit("r2")
    body = {"job_id": "r1.1", "lease_token": "a", "status": "running", "events": [event("r1", 1, 0)]}
    status, problem, _ = await served.call("POST", path, body, key=served.job_token())
    assert (status, problem["code"]) == (403, "job_mismatch")
    assert problem["errors"] == [{"pointer": "/job_id", "detail": "must be r2.1"}]


async def test_a_token_that_is_over_is_refused(served: ServedApi) -> None:
    await served.submit("r1")
    await served.clock.advance(served.settings.job_token_life.total_seconds() + 60)
    code, problem = await served.progress("a", "running")
    assert (code, problem["code"]) == (401, "job_token_expired")


async def test_an_api_key_is_no_job_token_and_a_job_token_is_no_api_key(served: ServedApi) -> None:
    await served.submit("r1")
    status, problem, _ = await served.call("POST", CALLBACK_PROGRESS_PATH, {}, key=KEY)
    assert (status, problem["code"]) == (401, "job_token_invalid")
    status, problem, _ = await served.call("GET", "/v1/runs/r1", key=served.job_token())
    assert (status, problem["code"]) == (401, "api_key_invalid")


async def test_a_run_whose_record_is_gone_is_a_404(served: ServedApi) -> None:
    await served.submit("r1")
    document = await served.memory.get(Key("runs", "r1"))
    assert document is not None
    await served.memory.commit([Delete(document.key, document.version)])
    code, problem = await served.progress("a", "running")
    assert (code, problem["code"]) == (404, "run_not_found")


async def test_a_callback_that_is_not_understood_is_a_400_with_every_place(served: ServedApi) -> None:
    await served.submit("r1")
    before = await served.memory.get(Key("runs", "r1"))
    code, problem = await served.progress("", "sleeping", progress=-1)
    assert (code, problem["code"]) == (400, "invalid_callback")
    assert {fault["pointer"] for fault in problem["errors"]} == {"/lease_token", "/status", "/progress"}
    after = await served.memory.get(Key("runs", "r1"))
    assert before is not None
    assert after is not None
    assert after.version == before.version


async def test_a_result_just_over_what_can_be_kept_ends_the_run_and_not_the_worker(served: ServedApi) -> None:
    await served.submit("r1")
    await served.progress("a", "running")
    code, answer = await served.progress("a", "completed", result="x" * 500_000)
    assert (code, answer["accepted"], answer["status"]) == (200, False, "failed")
    _, run, _ = await served.call("GET", "/v1/runs/r1")
    assert (run["failure_class"], run["status_code"], run["result"]) == ("result_store_error", 502, None)
    assert json.dumps(run)


async def test_the_tick_is_the_schedulers_alone(served: ServedApi) -> None:
    served.publisher.says = "refused"
    await served.submit("r1")
    served.publisher.says = "ok"
    await served.clock.advance(60)
    for changes in (
        {"email": "other@p-test.iam.gserviceaccount.com"},
        {"aud": "https://other.example"},
        {"email_verified": False},
        {"iss": "https://evil.example"},
        {"exp": int(served.clock.now().timestamp()) - 3600},
    ):
        status, problem, _ = await served.call("POST", "/internal/tick", key=served.scheduler_token(**changes))
        assert (status, problem["code"]) == (401, "push_token_rejected"), changes
    stripped = served.scheduler_token().rpartition(".")[0] + ".SIGNATURE_REMOVED_BY_GOOGLE"
    status, problem, _ = await served.call("POST", "/internal/tick", key=stripped)
    assert (status, problem["code"]) == (401, "push_signature_stripped")
    assert served.publisher.messages == []
    status, counts, _ = await served.call("POST", "/internal/tick", key=served.scheduler_token())
    assert (status, counts["published"], counts["left"]) == (200, 1, 0)


async def test_a_tick_whose_token_cannot_be_judged_now_is_a_503(served: ServedApi) -> None:
    served.google.failing = True
    status, problem, _ = await served.call("POST", "/internal/tick", key=served.scheduler_token())
    assert (status, problem["code"]) == (503, "push_key_set_unavailable")


async def test_a_worker_hears_of_a_cancellation_as_soon_as_it_is_asked_for(served: ServedApi) -> None:
    await served.submit("r1")
    await served.progress("a", "running")
    path, token = f"{CALLBACK_CANCELLATION_PATH}?wait=20", served.job_token()
    asked = asyncio.create_task(served.call("GET", path, key=token))
    await until(lambda: served.waits == 1)
    assert (await served.call("POST", "/v1/runs/r1/cancel"))[0] == 202
    status, answer, _ = await asked
    assert (status, answer) == (200, {"cancel_requested": True, "ended": False})
    await served.progress("a", "cancelled")
    assert (await served.call("GET", path, key=token))[1] == {"cancel_requested": True, "ended": True}


@pytest.mark.parametrize("query", ["?wait=31", "?wait=-1", "?wait=x", "?job_id=r1.1"])
async def test_a_question_for_a_cancellation_is_held_for_a_bounded_time(served: ServedApi, query: str) -> None:
    await served.submit("r1")
    status, _, _ = await served.call("GET", CALLBACK_CANCELLATION_PATH + query, key=served.job_token())
    assert status == 400


async def test_nothing_is_held_for_a_worker_that_died(served: ServedApi) -> None:
    await served.submit("r1")
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    lines = ["Host: x", f"Authorization: Bearer {served.job_token()}", "", ""]
    writer.write("\r\n".join([f"GET {CALLBACK_CANCELLATION_PATH}?wait=20 HTTP/1.1", *lines]).encode())
    await until(lambda: served.waits == 1)
    writer.transport.abort()
    while served.waits:
        await served.clock.advance(1)
    assert served.clock.monotonic() < 20
