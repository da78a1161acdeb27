"""Clients that misbehave cost their own call and nothing else: no task, no socket and no run is left of any.

That no task is left is checked for every test, that no run and no connection of the server is left by the fixtures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from runtime.contract.states import ProgressStatus
from runtime.ports.engine import RunContext, RunResult
from tests.support.scripted_engine import until_cancelled
from tests.support.served_executor import ServedExecutor, read, reset

IDLE = 100
STREAMS = ("/execute/stream", "/execute/sse")


async def rounds(context: RunContext) -> RunResult:
    """Emits until it is told to stop, letting others have their turn."""
    while not context.cancelled.is_set():
        await context.emit("tick", "x" * 1000)
        await asyncio.sleep(0.001)
    return RunResult(ProgressStatus.CANCELLED)


async def a_hundred(context: RunContext) -> RunResult:
    for number in range(100):
        await context.emit("tick", {"n": number, "text": "x" * 1000})
        await asyncio.sleep(0.001)
    return RunResult(ProgressStatus.COMPLETED)


async def flood(context: RunContext) -> RunResult:
    while not context.cancelled.is_set():
        await context.emit("tick", "x" * 10_000)
    return RunResult(ProgressStatus.CANCELLED)


@pytest.mark.parametrize("how", ["close", "reset", "half"])
async def test_a_caller_of_execute_that_leaves_cancels_its_run(served: ServedExecutor, how: str) -> None:
    """BR-63, BR-64."""
    served.engine("waits", until_cancelled)
    _, writer = await served.raw("/execute", json.dumps(served.job(engine="waits")).encode())
    await served.begun("waits")
    if how == "reset":
        reset(writer)
    elif how == "half":
        writer.write_eof()
    else:
        writer.close()
    await served.idle()
    writer.close()
    assert served.apis["r1"].end.status is ProgressStatus.CANCELLED
    assert served.count("http_requests_total", route="/execute", method="POST", status="499") == 1


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("how", ["close", "reset", "half", "at once"])
async def test_a_stream_goes_on_without_its_reader(served: ServedExecutor, path: str, how: str) -> None:
    """BR-63, BR-64: a documented choice, and no error."""
    served.engine("hundred", a_hundred)
    reader, writer = await served.raw(path, json.dumps(served.job(engine="hundred")).encode())
    if how != "at once":
        await reader.readuntil(b"tick")
    if how == "reset":
        reset(writer)
    elif how == "half":
        writer.write_eof()
    else:
        writer.close()
    await served.begun("hundred")
    await served.idle()
    writer.close()
    assert served.apis["r1"].end.status is ProgressStatus.COMPLETED
    assert served.apis["r1"].types.count("tick") == 100
    assert served.count("streams_total", end="client_closed") == 1
    assert served.count("http_requests_total", route=path, method="POST", status="200") == 1


async def test_a_reader_that_left_comes_back_for_the_rest(served: ServedExecutor) -> None:
    served.engine("hundred", a_hundred)
    job = served.job(engine="hundred")
    reader, writer = await served.raw("/execute/sse", json.dumps(job).encode())
    data = await reader.readuntil(b'"n":7,')
    reset(writer)
    await served.idle()
    identity = data.rpartition(b"\nid: ")[2].split(b"\n")[0].decode()
    events = await served.events("/execute/sse", job, {"Last-Event-ID": identity})
    assert [event["payload"]["n"] for event in events if event["event_type"] == "tick"] == list(range(8, 100))
    assert events[-1]["event_type"] == "completed"


@pytest.mark.parametrize("path", STREAMS)
async def test_a_reader_that_takes_nothing_fails_its_own_run_alone(served: ServedExecutor, path: str) -> None:
    """BR-72."""
    engine = served.engine("flood", flood)
    _, writer = await served.raw(path, json.dumps(served.job("slow", "flood")).encode())
    await served.begun("flood")
    others = [served.events(path, served.job(f"r{number}", payload={"ticks": 200})) for number in range(5)]
    for events in await asyncio.gather(*others):
        assert events[-1]["payload"]["status"] == "completed"
    async with asyncio.timeout(20):
        while engine.running:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
    reset(writer)
    await served.idle()
    end = served.apis["slow"].end
    assert (end.status, (end.error or "").partition(":")[0]) == (ProgressStatus.FAILED, "slow_consumer")


async def test_a_slow_reader_that_goes_on_reads_how_its_run_failed(served: ServedExecutor) -> None:
    engine = served.engine("flood", flood)
    async with served.open("/execute/stream", served.job("slow", "flood")) as response:
        await served.begun("flood")
        async with asyncio.timeout(20):
            while engine.running:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
        *_, last = read("/execute/stream", await response.read())
    assert (last["event_type"], last["payload"]["status"]) == ("completed", "failed")
    assert last["payload"]["error"].startswith("slow_consumer")


async def test_a_body_that_drips_or_breaks_off_starts_nothing(served: ServedExecutor) -> None:
    body = json.dumps(served.job()).encode()
    writers = []
    for path in ("/execute", *STREAMS):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode())
        writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:100])
        await writer.drain()
        writers.append((reader, writer))
    for byte in body[100:110]:
        for _, writer in writers:
            writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await served.call("/execute", served.job("other")))[0] == 200
    for _, writer in writers:
        writer.close()
    await served.idle()
    assert list(served.apis) == ["other"]


async def test_huge_headers_and_idle_connections_hold_up_nobody(served: ServedExecutor) -> None:
    idle = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(IDLE)]
    reader, writer = await served.raw("/execute", b"{}", "X-Huge: " + "x" * 100_000)
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    assert (await served.call("/execute", served.job()))[0] == 200
    assert served.connections >= IDLE, "none is turned away"
    served.lifecycle.drain()
    await served.stop()
    for other, connection in idle:
        assert await other.read() == b""
        connection.close()


@pytest.fixture(autouse=True)
async def _no_connection_is_left(served: ServedExecutor) -> AsyncIterator[None]:
    yield
    await served.session.close()
    await served.unconnected()


async def test_a_reader_that_takes_nothing_holds_up_no_drain(served: ServedExecutor) -> None:
    served.engine("flood", flood)
    _, writer = await served.raw("/execute/sse", json.dumps(served.job(engine="flood")).encode())
    await served.begun("flood")
    served.lifecycle.drain()
    async with asyncio.timeout(30):
        while served.working:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.005)
    await served.stop()
    reset(writer)
    assert served.apis["r1"].end.status is ProgressStatus.FAILED


async def test_a_reader_that_leaves_while_the_process_drains_holds_it_up_no_longer(served: ServedExecutor) -> None:
    served.engine("rounds", rounds)
    reader, writer = await served.raw("/execute/sse", json.dumps(served.job(engine="rounds")).encode())
    await reader.readuntil(b"tick")
    served.lifecycle.drain()
    reset(writer)
    async with asyncio.timeout(8):
        await served.idle()
    assert served.apis["r1"].end.error == "executor draining"
