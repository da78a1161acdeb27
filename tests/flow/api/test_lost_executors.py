"""Executors that refuse, break, lie or are not there: each run ends once, as far as anybody can know how."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runtime.api import execution, executor_client
from tests.support.api_bench import event as recorded
from tests.support.faulty_documents import Fault
from tests.support.scripted_executor import Script, ScriptedExecutor, event, hang_up, problem, stream
from tests.support.served_pair import WaitedApi

NDJSON = "application/x-ndjson"
BEGUN = event("run_initiated", {"run_id": "r1"}) + event("log", {"message": "Execution started"})
DONE = {"run_id": "r1", "status": "completed", "state": "succeeded", "status_code": 200, "result": {"n": 1}}
UNHEARD = {**DONE, "callback_failed": True}
LOST = {**UNHEARD, "state": "failed", "status_code": 502, "failure_class": "dispatch_error", "error": "lost"}
UNREPORTED = stream(BEGUN, event("completed", UNHEARD))
"""An executor here reports nothing to the record: its end is told to the caller alone."""


@asynccontextmanager
async def api_of(*scripts: Script) -> AsyncIterator[tuple[WaitedApi, ScriptedExecutor]]:
    async with ScriptedExecutor(*scripts) as executor:
        api = WaitedApi(executor.port)
        await api.start()
        try:
            yield api, executor
        finally:
            await api.stop()


async def _moved(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "/elsewhere"})


async def _no_stream(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"run_id": "r1"})


NOT_TAKEN: dict[str, Script] = {
    "it drains": problem(503, "draining"),
    "it is full": problem(503, "too_many_runs"),
    "the platform has no instance": problem(429, None),
}
REFUSED: dict[str, Script] = {
    "the platform knows no such caller": problem(401, None),
    "the platform forbids the caller": problem(403, None),
    "the token": problem(401, "job_token_invalid"),
    "another job than was signed": problem(403, "job_payload_mismatch"),
    "no such address": problem(404, None),
    "it has the job already": problem(409, "run_already_held"),
    "the size": problem(413, "body_too_large"),
    "the type": problem(415, "unsupported_media_type"),
    "the shape": problem(422, "invalid_execution_request"),
}
BROKEN: dict[str, Script] = {
    "its own fault": problem(500, "internal"),
    "the platform lost the instance": problem(503, None),
    "the platform's time is over": problem(504, None),
    "it sends the call elsewhere": _moved,
    "it is no executor": _no_stream,
    "it hangs up": hang_up,
}
CUT: dict[str, Script] = {
    "broken off": stream(BEGUN, ends=False),
    "broken off inside an event": stream(BEGUN, event("tick", 1)[:30], ends=False),
    "ended": stream(BEGUN),
    "ended before it began": stream(),
    "no events": stream(BEGUN, b"hello\n\n"),
    "an end behind the end": stream(BEGUN, event("completed", LOST) + event("completed", UNHEARD)),
    "an endless event": stream(BEGUN, b"x" * 2_000_000),
    "an end that nobody can read": stream(BEGUN, b"id: 1\nevent: completed\ndata: {\n\n"),
    "an end in an unknown state": stream(BEGUN, event("completed", {**UNHEARD, "state": "queued"})),
    "an end that contradicts itself": stream(BEGUN, event("completed", {**UNHEARD, "status_code": 500})),
}


@pytest.mark.parametrize("script", NOT_TAKEN.values(), ids=NOT_TAKEN)
async def test_a_run_that_was_not_taken_is_offered_again(script: Script) -> None:
    async with api_of(script, script, UNREPORTED) as (api, executor):
        status, answer = await api.run()
        assert (status, answer["state"], answer["result"]) == (200, "succeeded", {"n": 1})
        assert len({str(job) for job in executor.jobs}) == 1, "the same job, under the same lease"
        assert len(executor.jobs) == 3
        assert api.count("executor_calls_total", result="not_taken") == 2


@pytest.mark.parametrize(
    ("script", "code"),
    [*((script, "executor_refused") for script in REFUSED.values()),
     *((script, "executor_broken") for script in BROKEN.values())],
    ids=[*REFUSED, *BROKEN],
)  # fmt: skip
async def test_a_call_that_may_have_begun_something_or_was_refused_is_made_once(script: Script, code: str) -> None:
    async with api_of(script) as (api, executor):
        status, answer = await api.run()
        assert (status, answer["state"], answer["status_code"]) == (200, "failed", 502)
        assert (answer["failure_class"], answer["error"].split(":")[0]) == ("dispatch_error", code)
        assert len(executor.requests) == 1
        async with api.post(api.wanted("r2"), NDJSON) as response:
            said = await response.json(content_type=None)
            assert (response.status, said["code"], said["run_id"]) == (502, code, "r2")
            assert response.content_type == "application/problem+json"
        assert len(executor.requests) == 2
        assert (await api.ended("r2"))["state"] == "failed"
        assert (await api.run())[1] == {**answer, "duplicate": True}
        assert api.count("executor_calls_total", result=code) == 2


@pytest.mark.parametrize("script", CUT.values(), ids=CUT)
async def test_a_stream_without_an_end_ends_the_record_and_has_one_last_event_all_the_same(script: Script) -> None:
    """BR-67."""
    async with api_of(script) as (api, executor):
        status, answer = await api.run()
        assert (status, answer["state"], answer["failure_class"]) == (200, "failed", "dispatch_error")
        found = await api.stream("r2")
        (last,) = [item["payload"] for item in found if item["event_type"] == "completed"]
        assert found[-1]["payload"] == last
        assert (last["run_id"], last["status"], last["state"], last["status_code"]) == ("r2", "failed", "failed", 502)
        record = await api.record("r2")
        assert (record["state"], record["error"]) == ("failed", last["error"])
        assert len(executor.requests) == 2


async def test_an_end_that_the_record_does_not_know_is_recorded_before_it_is_told() -> None:
    async with api_of(UNREPORTED) as (api, _):
        *_, last = await api.stream()
        assert last["payload"].pop("duration_ms") >= 0
        assert last["payload"] == {**DONE, "log_level": 0}
        assert (await api.record())["result"] == {"n": 1}


async def _ends(api: WaitedApi, job: dict[str, Any]) -> None:
    await _say(api, job, "progress", status="completed", result=7)


async def _tells_more(api: WaitedApi, job: dict[str, Any]) -> None:
    await _say(api, job, "events", events=[recorded("r1", 1, 0), recorded("r1", 1, 1)])


@pytest.mark.parametrize(
    ("report", "types", "state"),
    [(_ends, [], "succeeded"), (_tells_more, ["progress", "progress"], "failed")],
    ids=["the run has ended otherwise", "the record has more events"],
)
async def test_a_stream_that_broke_has_no_end_where_an_event_may_be_missing(
    report: Callable[[WaitedApi, dict[str, Any]], Awaitable[None]], types: list[str], state: str
) -> None:
    """BR-67. The record has them all: the same request gives them."""
    told = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(BEGUN)
        await told.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    async with api_of(late) as (api, executor):
        async with api.post(api.wanted(), NDJSON) as response:
            await response.content.readuntil(b"started")
            await report(api, (await executor.called())[0])
            told.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.readuntil(b"completed")
        assert api.count("streams_total", end="cut") == 1
        again = await api.stream()
        assert [item["event_type"] for item in again] == ["run_initiated", *types, "completed"]
        assert again[-1]["payload"]["state"] == state == (await api.record())["state"]
        assert len(executor.requests) == 1


async def test_a_run_whose_executor_reported_and_never_answered_is_streamed_from_its_record() -> None:
    """The answer was lost on its way; the run was not."""
    told = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        await told.wait()
        return await hang_up(request)

    async with api_of(late) as (api, executor):
        caller = asyncio.create_task(api.stream())
        await _ends(api, (await executor.called())[0])
        told.set()
        found = await caller
        assert [item["event_type"] for item in found] == ["run_initiated", "completed"]
        assert (found[-1]["payload"]["status"], found[-1]["payload"]["result"]) == ("completed", 7)


async def _say(api: WaitedApi, job: dict[str, Any], what: str, **said: Any) -> None:
    """A callback of an executor."""
    report = {"job_id": job["job_id"], "lease_token": job["lease_token"], **said}
    headers = {"Authorization": f"Bearer {job['executor_jwt']}"}
    async with api.session.post(f"/api/v1/execution/{what}", json=report, headers=headers) as response:
        assert response.status == 200, await response.text()


@pytest.mark.parametrize("failing", ["port", "token"])
async def test_an_executor_that_is_not_there_is_looked_for_and_then_given_up(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    monkeypatch.setattr(execution, "HANDOVER_SECONDS", 0.4)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        api = WaitedApi(nobody.getsockname()[1])
        api.tokens.failing = failing == "token"
        await api.start()
        status, answer = await api.run()
        assert (status, answer["state"], answer["status_code"]) == (200, "failed", 503)
        assert (answer["failure_class"], answer["error"].split(":")[0]) == ("dispatch_error", "executor_unavailable")
        assert len(api.tokens.audiences) > 1
        async with api.post(api.wanted("r2"), NDJSON) as response:
            said = await response.json(content_type=None)
            assert (response.status, said["code"], said["run_id"]) == (503, "executor_unavailable", "r2")
            assert "Retry-After" in response.headers
        await api.stop()


@pytest.mark.parametrize("bound", ["ANSWER_SECONDS", "SILENCE_SECONDS"])
async def test_an_executor_that_says_nothing_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(executor_client, bound, 0.2)

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if bound == "SILENCE_SECONDS":
            await response.prepare(request)
        await asyncio.sleep(30)
        return response

    async with api_of(silent) as (api, executor):
        status, answer = await api.run()
        assert (status, answer["state"], answer["error"].split(":")[0]) == (200, "failed", "executor_broken")
        assert len(executor.requests) == 1


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST, Fault.DOWN])
async def test_a_run_whose_creation_is_unclear_is_handed_over_once(fault: Fault) -> None:
    async with api_of(UNREPORTED) as (api, executor):
        api.documents.at(_0=fault)
        status, answer = await api.run()
        assert (status, answer["state"]) == (200, "succeeded")
        assert len(executor.jobs) == 1


async def test_an_end_is_recorded_when_the_store_is_back() -> None:
    async with api_of(stream(BEGUN)) as (api, _):
        faults = dict.fromkeys(range(1, 5), Fault.DOWN)
        api.documents.choose = lambda number, _kind, _writes: faults.get(number)
        *_, last = await api.stream()
        assert last["payload"]["status"] == "failed"
        assert (await api.record())["state"] == "failed"
