"""Callers that take their time, take nothing, or leave: their runs go on as if nobody looked, and no socket, no wait
and no task of theirs stays.

A real API and a real executor over sockets, with more data than sockets hold.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from runtime.api import backlog, executions, stream_answer, stream_run, sync_run, watch
from runtime.api.app import WATCH
from runtime.contract.states import ProgressStatus
from runtime.executor.channel import ChannelRules
from runtime.ports.engine import RunContext, RunResult
from tests.support.served_executor import ServedExecutor
from tests.support.served_pair import WaitedApi, events, served_pair

Pair = tuple[WaitedApi, ServedExecutor]
NDJSON, SSE = "application/x-ndjson", "text/event-stream"
TICKS = {"ticks": 600, "size": 10_000}


@pytest.fixture
async def both() -> AsyncIterator[Pair]:
    async with served_pair(channel=ChannelRules()) as it:
        yield it


@asynccontextmanager
async def ended_untaken(api: WaitedApi, accept: str = NDJSON) -> AsyncIterator[aiohttp.ClientResponse]:
    """A stream of which nothing was taken until its run had ended."""
    async with api.post(api.wanted(input=TICKS), accept) as response:
        record = await api.ended()
        assert (record["state"], record["result"]) == ("succeeded", TICKS["ticks"])
        await api.counted("executor_calls_total", result="completed")
        yield response


def port_of(response: aiohttp.ClientResponse) -> int:
    """The caller's port."""
    assert response.connection is not None
    assert response.connection.transport is not None
    port: int = response.connection.transport.get_extra_info("sockname")[1]
    return port


@pytest.mark.parametrize("accept", [NDJSON, SSE])
async def test_a_caller_that_takes_its_time_gets_everything_and_its_run_waits_for_nobody(
    both: Pair, accept: str
) -> None:
    """BR-67."""
    api, executor = both
    async with ended_untaken(api, accept) as response:
        await executor.idle()
        found = events(await response.read(), accept)
    assert [event["payload"]["n"] for event in found if event["event_type"] == "tick"] == list(range(600))
    assert (found[-1]["event_type"], found[-1]["payload"]["result"]) == ("completed", 600)
    assert executor.count("streams_total", end="completed") == api.count("streams_total", end="completed") == 1


@pytest.mark.parametrize(
    ("module", "bound", "value"),
    [
        (backlog, "CALLER_BYTES", 1_000_000),
        (backlog, "PROCESS_BYTES", 1_000_000),
        (stream_answer, "STALL_SECONDS", 0.3),
    ],
    ids=["too far behind", "too much waits for all", "takes nothing"],
)
async def test_a_caller_that_is_let_go_of_can_tell_and_its_run_goes_on(
    both: Pair, monkeypatch: pytest.MonkeyPatch, module: object, bound: str, value: float
) -> None:
    """BR-72."""
    api, _ = both
    monkeypatch.setattr(module, bound, value)
    async with ended_untaken(api) as response:
        await api.counted("streams_total", end="client_closed")
        await api.without(port_of(response))
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    monkeypatch.undo()
    again = await api.stream(input=TICKS)
    assert [event["event_type"] for event in (again[0], again[-1])] == ["run_initiated", "completed"]


async def test_a_caller_that_keeps_up_does_not_pay_for_one_that_does_not(
    both: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, _ = both
    async with ended_untaken(api) as slow:
        monkeypatch.setattr(backlog, "PROCESS_BYTES", 0)
        found = await api.stream("r2", input={"ticks": 2000})
        assert sum(event["event_type"] == "tick" for event in found) == 2000
        assert (await slow.read()).count(b'"event_type":"tick"') == 600


async def test_what_a_slow_caller_has_not_taken_is_broken_off_by_a_drain(
    both: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "DRAIN_SECONDS", 0.1)
    api, _ = both
    async with ended_untaken(api) as response:
        api.lifecycle.drain()
        assert await api.lifecycle.settled(30)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert api.count("streams_total", end="cut") == 1


async def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def half_closes(writer: asyncio.StreamWriter) -> None:
    writer.write_eof()


Leave = Callable[[asyncio.StreamWriter], Awaitable[None]]
LEAVES = pytest.mark.parametrize("leave", [closes, resets, half_closes])


class Silent:
    """The engine `waits`: says one word and nothing more until it is let go on."""

    def __init__(self, executor: ServedExecutor) -> None:
        self.go_on = asyncio.Event()
        executor.engine("waits", self._wait)

    async def _wait(self, context: RunContext) -> RunResult:
        await context.emit("word", "first")
        await self.go_on.wait()
        return RunResult(ProgressStatus.COMPLETED, output="done")


async def call(api: WaitedApi, mode: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a run of the engine `waits` was asked for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    body = json.dumps({"run_id": "r1", "engine": "waits", "mode": mode}).encode()
    head = {**api.session.headers, "Host": "x", "Accept": NDJSON, "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in head.items()]
    writer.write("\r\n".join(["POST /v1/runs HTTP/1.1", *lines, "", ""]).encode() + body)
    return reader, writer


async def nobody_waits(api: WaitedApi) -> None:
    """Returns once nothing waits in the API but the executor's question whether its run is to stop."""
    async with asyncio.timeout(30):
        while api.app[WATCH].waits > 1 or api.count("http_requests_in_flight") > 1:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


@LEAVES
@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_callers_that_leave_in_silence_are_not_waited_for(
    both: Pair, monkeypatch: pytest.MonkeyPatch, mode: str, leave: Leave
) -> None:
    """BR-63: the first caller and one that repeats its request, while the run says nothing."""
    monkeypatch.setattr(stream_run, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(sync_run, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.05)
    api, executor = both
    silent = Silent(executor)
    connections = [await call(api, mode)]
    await executor.begun("waits")
    connections.append(await call(api, mode))
    await api.spoke()
    if mode == "stream":
        for reader, _ in connections:
            await reader.readuntil(b"first")
    else:
        async with asyncio.timeout(30):
            while api.app[WATCH].waits < 2:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
    ports = [writer.get_extra_info("sockname")[1] for _, writer in connections]
    assert api.callers.issuperset(ports)
    for _, writer in connections:
        await leave(writer)
    await nobody_waits(api)
    await api.without(*ports)
    silent.go_on.set()
    assert (await api.ended())["result"] == "done"
    if mode == "stream":
        assert api.count("streams_total", end="client_closed") == 2
    else:
        assert api.count("http_requests_total", route="/v1/runs", method="POST", status="499") == 2
    for _, writer in connections:
        writer.close()


@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_a_caller_that_leaves_beside_a_drain_holds_nothing_up(
    both: Pair, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(executions, "DRAIN_SECONDS", 0.1)
    api, executor = both
    silent = Silent(executor)
    _, writer = await call(api, mode)
    await executor.begun("waits")
    await api.spoke()
    api.lifecycle.drain()
    writer.transport.abort()
    assert await api.lifecycle.settled(30)
    await api.counted("executor_calls_total", result="left")
    silent.go_on.set()
    assert (await api.ended())["result"] == "done"


async def test_a_hundred_idle_connections_hold_up_neither_a_caller_nor_a_drain(both: Pair) -> None:
    api, _ = both
    idle = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(100)]
    ports = [writer.get_extra_info("sockname")[1] for _, writer in idle]
    assert (await api.run())[1]["state"] == "succeeded"
    assert api.callers.issuperset(ports)
    for _, writer in idle[:50]:
        writer.close()
    await api.without(*ports[:50])
    await api.stop()
    for reader, writer in idle[50:]:
        assert await reader.read() == b""
        writer.close()
