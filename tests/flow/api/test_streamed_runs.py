"""Runs whose callers follow them: a real API and a real executor, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.api import executions
from runtime.contract.states import ProgressStatus
from runtime.execution.answer import failed, timed_out
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_engine import until_cancelled
from tests.support.served_executor import ServedExecutor
from tests.support.served_pair import WaitedApi, events, served_pair

Pair = tuple[WaitedApi, ServedExecutor]
NDJSON, SSE = "application/x-ndjson", "text/event-stream"


@pytest.fixture
async def both() -> AsyncIterator[Pair]:
    async with served_pair() as it:
        yield it


class Speaker:
    """The engine `speaks`: tells a first word, waits to be let go on, tells a last one."""

    def __init__(self, executor: ServedExecutor) -> None:
        self.go_on = asyncio.Event()
        executor.engine("speaks", self._speak)

    async def _speak(self, context: RunContext) -> RunResult:
        await context.emit("word", "first")
        await self.go_on.wait()
        await context.emit("word", "last")
        return RunResult(ProgressStatus.COMPLETED, output={"words": 2})


def whole(found: list[dict[str, Any]], run_id: str = "r1") -> dict[str, Any]:
    """The payload of `completed`, of a stream that begins and ends as every stream must."""
    types = [event["event_type"] for event in found]
    assert (types[0], types[-1]) == ("run_initiated", "completed")
    assert types.count("run_initiated") == types.count("completed") == 1
    payload: dict[str, Any] = found[-1]["payload"]
    assert found[0]["payload"] == {"run_id": run_id}
    assert payload["run_id"] == run_id
    assert "callback_failed" not in payload
    return payload


@pytest.mark.parametrize("accept", [NDJSON, SSE])
async def test_a_caller_gets_the_executors_events_in_the_form_it_asks_for(both: Pair, accept: str) -> None:
    api, _ = both
    async with api.post(api.wanted(input={"ticks": 500, "size": 100}), accept) as response:
        assert (response.status, response.content_type) == (200, accept)
        assert (response.headers["Cache-Control"], response.headers["Location"]) == ("no-cache", "/v1/runs/r1")
        found = events(await response.read(), accept)
    assert (whole(found)["state"], whole(found)["result"]) == ("succeeded", 500)
    assert [event["payload"]["n"] for event in found if event["event_type"] == "tick"] == list(range(500))
    assert (await api.record())["state"] == "succeeded"
    assert api.count("streams_total", end="completed") == 1


@pytest.mark.parametrize("accept", [NDJSON, SSE])
async def test_an_event_is_not_kept_back_for_the_next_one(both: Pair, accept: str) -> None:
    api, executor = both
    speaker = Speaker(executor)
    async with api.post(api.wanted(engine="speaks"), accept) as response:
        await response.content.readuntil(b"first")
        speaker.go_on.set()
        assert b"completed" in await response.content.read()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", NDJSON),
        ("text/html, application/*;q=0.8", NDJSON),
        ("text/*", SSE),
        ("TEXT/Event-Stream", SSE),
        ("application/json, text/event-stream;q=0.5, application/x-ndjson", SSE),
    ],
)
async def test_the_first_form_that_is_accepted_is_sent(both: Pair, accept: str, kind: str) -> None:
    api, _ = both
    async with api.post(api.wanted(), accept) as response:
        assert (response.status, response.content_type) == (200, kind)
        whole(events(await response.read(), kind))


async def test_a_caller_that_accepts_no_form_begins_no_run(both: Pair) -> None:
    api, _ = both
    async with api.post(api.wanted(), "application/json, text/html") as response:
        assert (response.status, (await response.json(content_type=None))["code"]) == (406, "not_acceptable")
    async with api.session.get("/v1/runs/r1") as response:
        assert response.status == 404


async def _fails(context: RunContext) -> RunResult:
    return failed("no coffee here")


async def _overruns(context: RunContext) -> RunResult:
    await asyncio.sleep(context.seconds_left)
    return timed_out()


@pytest.mark.parametrize(
    ("script", "more", "state", "code"),
    [(_fails, {}, "failed", 502), (_overruns, {"timeout_seconds": 1}, "expired", 504)],
    ids=["user code fails", "a deadline passes"],
)
async def test_every_end_is_the_last_event_once(
    both: Pair, script: Any, more: dict[str, Any], state: str, code: int
) -> None:
    """BR-67."""
    api, executor = both
    executor.engine("speaks", script)
    end = whole(await api.stream(engine="speaks", **more))
    assert (end["status"], end["state"], end["status_code"]) == ("failed", state, code)
    record = await api.record()
    assert (record["state"], record["status_code"], record["failure_class"]) == (state, code, end["failure_class"])


async def test_a_cancellation_ends_a_stream(both: Pair) -> None:
    api, executor = both
    executor.engine("stops", until_cancelled)
    caller = asyncio.create_task(api.stream(engine="stops"))
    await executor.begun("stops")
    assert await api.cancel() == 202
    end = whole(await caller)
    assert (end["status"], end["state"], end["status_code"]) == ("cancelled", "cancelled", 499)
    assert (await api.record())["state"] == "cancelled"


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
async def test_a_caller_that_leaves_mid_stream_leaves_its_run_going_on(both: Pair, reset: bool) -> None:
    """BR-63, BR-64."""
    api, executor = both
    speaker = Speaker(executor)
    async with api.post(api.wanted(engine="speaks"), SSE) as response:
        await response.content.readuntil(b"first")
        assert response.connection is not None
        assert response.connection.transport is not None
        if reset:
            response.connection.transport.abort()
        else:
            response.connection.transport.close()
    speaker.go_on.set()
    record = await api.ended()
    assert (record["state"], record["result"]) == ("succeeded", {"words": 2})
    await api.counted("streams_total", end="client_closed")
    await api.counted("executor_calls_total", result="completed")


@pytest.mark.parametrize("accept", [NDJSON, SSE])
async def test_a_repeated_request_follows_the_record_while_the_run_goes_on_and_after(both: Pair, accept: str) -> None:
    api, executor = both
    speaker = Speaker(executor)
    first = asyncio.create_task(api.stream(engine="speaks", accept=accept))
    await executor.begun("speaks")
    async with api.post(api.wanted(engine="speaks"), accept) as response:
        await response.content.readuntil(b"first")
        speaker.go_on.set()
        rest = await response.content.read()
    assert rest.count(b'"event_type":"completed"') == 1
    again = await api.stream(engine="speaks", accept=accept)

    def said(found: list[dict[str, Any]]) -> list[tuple[str, object]]:
        return [(event["event_type"], event["payload"]) for event in found[1:-1]]

    found = await first
    assert said(again) == said(found)
    assert whole(again)["result"] == whole(found)["result"] == {"words": 2}
    assert len(executor.engines["speaks"].contexts) == 1


async def test_a_stream_of_a_process_that_drains_is_broken_off_and_its_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What ends without `completed` must not look as if it had ended."""
    monkeypatch.setattr(executions, "DRAIN_SECONDS", 0.1)
    async with served_pair() as (api, executor):
        speaker = Speaker(executor)
        async with api.post(api.wanted(engine="speaks")) as response:
            await response.content.readuntil(b"first")
            api.lifecycle.drain()
            with pytest.raises(Exception, match="payload is not completed"):
                await response.content.read()
        speaker.go_on.set()
        assert (await api.ended())["state"] == "succeeded"


async def test_many_streams_at_once_keep_their_events_apart(both: Pair) -> None:
    api, _ = both
    streams = await asyncio.gather(*(api.stream(f"r{number}", input={"ticks": number}) for number in range(30)))
    for number, found in enumerate(streams):
        assert whole(found, f"r{number}")["result"] == number
        assert [event["payload"]["n"] for event in found if event["event_type"] == "tick"] == list(range(number))
