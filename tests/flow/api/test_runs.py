"""`/v1/runs` over a socket: accepted, repeated, read, listed and cancelled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.support.served_api import FLOW, ServedApi
from tests.support.waiting import until


async def test_a_new_run_is_a_202_with_its_place_and_a_repeated_request_a_200(served: ServedApi) -> None:
    body = {"run_id": "r1", "engine": "flow", "flow": FLOW, "input": {"n": 1}, "labels": {"team": "a"}}
    status, first, headers = await served.call("POST", "/v1/runs", body)
    assert (status, headers["Location"]) == (202, "/v1/runs/r1")
    assert (first["state"], first["duplicate"], first["labels"]) == ("dispatching", False, {"team": "a"})
    status, second, _ = await served.call("POST", "/v1/runs", body)
    assert (status, second["duplicate"], second["run_id"]) == (200, True, "r1")
    assert len(served.publisher.messages) == 1


async def test_an_id_that_belongs_to_another_request_is_a_conflict(served: ServedApi) -> None:
    await served.submit("r1")
    status, answer, _ = await served.call("POST", "/v1/runs", {"run_id": "r1", "engine": "report"})
    assert (status, answer["code"], answer["run_id"]) == (409, "run_id_conflict", "r1")


async def test_a_run_shows_its_end_its_times_and_its_result(served: ServedApi) -> None:
    await served.submit("r1", timeout_seconds=60)
    await served.clock.advance(1)
    await served.progress("a", "running")
    await served.clock.advance(1)
    code, answer = await served.progress("a", "completed", result={"sum": [1, 2.5, "é"]}, status_code=201)
    assert (code, answer["accepted"]) == (200, True)
    status, run, _ = await served.call("GET", "/v1/runs/r1")
    assert status == 200
    assert run == {
        "run_id": "r1", "state": "succeeded", "status_code": 201, "failure_class": None, "last_failure_class": None,
        "error": None, "mode": "async", "app_id": "default", "engine": "flow", "attempt": 1, "max_attempts": 3,
        "generation": 1, "timeout_seconds": 60.0, "cancel_requested": False, "labels": {},
        "created_at": "2026-01-01T00:00:00.000000Z", "queued_at": "2026-01-01T00:00:00.000000Z",
        "dispatched_at": "2026-01-01T00:00:00.000000Z", "started_at": "2026-01-01T00:00:01.000000Z",
        "completed_at": "2026-01-01T00:00:02.000000Z", "result": {"sum": [1, 2.5, "é"]}, "progress": None,
        "current_step": None, "next_sequence": 0,
        "history": [
            {"state": "queued", "at": "2026-01-01T00:00:00.000000Z", "generation": 1},
            {"state": "dispatching", "at": "2026-01-01T00:00:00.000000Z", "generation": 1},
            {"state": "running", "at": "2026-01-01T00:00:01.000000Z", "generation": 1, "attempt": 1},
            {"state": "succeeded", "at": "2026-01-01T00:00:02.000000Z", "generation": 1, "attempt": 1},
        ],
    }  # fmt: skip


async def test_a_repeated_request_for_an_ended_run_gives_its_result(served: ServedApi) -> None:
    await served.submit("r1")
    await served.progress("a", "running")
    await served.progress("a", "completed", result=7)
    assert (await served.submit("r1"))["result"] == 7


async def test_a_list_is_newest_first_in_pages_and_by_state(served: ServedApi) -> None:
    for number in range(3):
        await served.submit(f"r{number}")
        await served.clock.advance(1)
    await served.call("POST", "/v1/runs/r0/cancel")
    _, first, _ = await served.call("GET", "/v1/runs?limit=2")
    _, second, _ = await served.call("GET", f"/v1/runs?limit=2&before={first['next_before']}")
    assert [run["run_id"] for run in first["runs"] + second["runs"]] == ["r2", "r1", "r0"]
    assert second["next_before"] is None
    _, cancelled, _ = await served.call("GET", "/v1/runs?state=cancelled")
    assert [run["run_id"] for run in cancelled["runs"]] == ["r0"]


async def test_a_cancellation_is_immediate_before_the_work_and_a_request_during_it(served: ServedApi) -> None:
    await served.submit("r1")
    await served.progress("a", "running")
    for _ in range(2):
        status, run, _ = await served.call("POST", "/v1/runs/r1/cancel")
        assert (status, run["state"], run["cancel_requested"]) == (202, "running", True)
    _, answer = await served.progress("a", "running")
    assert answer["cancel_requested"] is True
    await served.progress("a", "cancelled")
    status, problem, _ = await served.call("POST", "/v1/runs/r1/cancel")
    assert (status, problem["code"], problem["state"]) == (409, "run_already_ended", "cancelled")
    await served.submit("r2")
    status, run, _ = await served.call("POST", "/v1/runs/r2/cancel")
    assert (status, run["state"], run["status_code"]) == (200, "cancelled", 499)


@pytest.mark.parametrize("says", ["refused", "broken", "hangs"])
async def test_a_broker_that_fails_costs_no_caller_its_run(served: ServedApi, says: str) -> None:
    served.publisher.says = says
    submitting = asyncio.create_task(served.submit("r1"))
    await until(lambda: served.publisher.tries)
    while not submitting.done():
        await served.clock.advance(1)
        await asyncio.sleep(0)
    assert (await submitting)["state"] == "queued"
    served.publisher.says = "ok"
    await served.clock.advance(60)
    status, counts, _ = await served.call("POST", "/internal/tick", key=served.scheduler_token())
    assert (status, counts["published"]) == (200, 1)
    assert len(served.publisher.messages) == 1


async def test_a_process_that_drains_takes_no_new_run_and_still_takes_callbacks(served: ServedApi) -> None:
    await served.submit("r1")
    served.lifecycle.drain()
    status, problem, headers = await served.call("POST", "/v1/runs", {"engine": "report"})
    assert (status, problem["code"]) == (503, "draining")
    assert "Retry-After" in headers
    code, answer = await served.progress("a", "running")
    assert (code, answer["lease_acquired"]) == (200, True)


async def test_a_store_that_is_away_is_a_503_that_says_what_to_do(served: ServedApi) -> None:
    await served.memory.close()
    status, problem, headers = await served.call("GET", "/v1/runs/r1")
    assert (status, problem["code"]) == (503, "store_unavailable")
    assert headers["Content-Type"] == "application/problem+json"
    assert "Retry-After" in headers


async def test_health_and_metrics_are_served_without_a_key(served: ServedApi) -> None:
    status, health, _ = await served.call("GET", "/health/ready", key=None)
    assert (status, health["service"]) == (200, "api")
    await served.submit("r1")
    async with served.session.get("/metrics") as response:
        text = await response.text()
    assert 'http_requests_total{method="POST",route="/v1/runs",status="202"} 1.0' in text
    assert 'runs_total{failure_class="",state="queued"} 1.0' in text
    assert "r1" not in text.replace('route="/v1', ""), "no id is ever a label"


async def test_the_clean_up_closes_what_the_app_was_given() -> None:
    api = ServedApi()
    await api.start()
    await api.stop()
    assert api.publisher.closed
    assert api.settings.max_queue_age == timedelta(days=1)
