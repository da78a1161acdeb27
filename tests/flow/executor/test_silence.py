"""Streams in which nothing happens for a while, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runtime.adapters.clock import ManualClock
from runtime.execution.event import Emitted
from runtime.executor.channel import Channel
from tests.support.scripted_engine import until_cancelled
from tests.support.served_executor import ServedExecutor, reset


@pytest.fixture
async def still() -> AsyncIterator[ServedExecutor]:
    """An executor whose time is the test's."""
    executor = ServedExecutor(ManualClock())
    await executor.start()
    yield executor
    await executor.stop()


async def passed(executor: ServedExecutor, seconds: float) -> None:
    """Moves time in steps, and lets what is sent arrive."""
    assert isinstance(executor.clock, ManualClock)
    for _ in range(round(seconds)):
        await executor.clock.advance(1)
        await asyncio.sleep(0.001)


async def test_silence_is_filled_with_comments_and_nothing_follows_the_end(still: ServedExecutor) -> None:
    """BR-71."""
    still.engine("waits", until_cancelled)
    call = asyncio.create_task(_whole(still, still.job(engine="waits", timeout_ms=50_000)))
    await still.begun("waits")
    await passed(still, 70)
    data = await call
    assert data.count(b": keep-alive\n\n") == 3, "every 15 s of silence, and once more only after 15 s more"
    assert data.rstrip().endswith(b"}")
    assert b"\nevent: completed\n" in data.rpartition(b"\n\nid: ")[2]


async def test_lines_of_ndjson_are_events_and_nothing_else(still: ServedExecutor) -> None:
    """BR-71: the form has no comments; its documentation says so."""
    still.engine("waits", until_cancelled)
    job = still.job(engine="waits", timeout_ms=50_000)
    call = asyncio.create_task(still.events("/execute/stream", job))
    await still.begun("waits")
    await passed(still, 70)
    assert [event["event_type"] for event in await call] == ["run_initiated", "log", "error", "completed"]


@pytest.mark.parametrize("path", ["/execute/stream", "/execute/sse"])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_reader_that_left_in_silence_is_noticed_within_a_second(
    still: ServedExecutor, path: str, how: str
) -> None:
    """BR-63: nothing has to be written for it, and NDJSON has nothing that could be."""
    still.engine("waits", until_cancelled)
    reader, writer = await still.raw(path, json.dumps(still.job(engine="waits")).encode())
    await reader.readuntil(b"Execution started")
    if how == "close":
        writer.close()
    else:
        reset(writer)
    async with asyncio.timeout(30):
        while still.count("http_requests_in_flight"):
            await passed(still, 1)
    assert still.count("streams_total", end="client_closed") == 1
    assert still.working == 1, "the run goes on"
    await passed(still, 80)
    assert still.working == 0


async def test_a_body_that_does_not_arrive_is_not_waited_for(still: ServedExecutor) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", still.port)
    writer.write(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(0.05)
    await passed(still, 31)
    assert (await reader.readline()).split()[1] == b"408"
    writer.close()


async def test_a_body_that_drips_is_not_waited_for_any_longer(still: ServedExecutor) -> None:
    """BR-64: each byte comes in time, all of them do not."""
    body = json.dumps(still.job()).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", still.port)
    writer.write(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode())
    await asyncio.sleep(0.05)
    for byte in body[:29]:
        writer.write(bytes([byte]))
        await passed(still, 1)
    assert still.count("http_requests_in_flight") == 1
    await passed(still, 2)
    assert (await reader.readline()).split()[1] == b"408"
    assert still.apis == {}, "nothing was begun"
    writer.close()


async def test_an_ended_stream_is_held_for_a_minute(still: ServedExecutor) -> None:
    job = still.job()
    first, *_ = await still.events("/execute/sse", job)
    resume = {"Last-Event-ID": first["event_id"]}
    await passed(still, 59)
    assert (await still.events("/execute/sse", job, resume))[-1]["event_type"] == "completed"
    await passed(still, 2)
    assert (await still.call("/execute/sse", job, resume))[0] == 404


@pytest.mark.parametrize("path", ["/execute/stream", "/execute/sse"])
async def test_a_stream_that_breaks_here_is_cut_and_not_ended(
    still: ServedExecutor, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BR-67: a body without its last event must not look whole."""
    take = Channel.take

    def broken(channel: Channel, size: int, overhead: int = 0) -> list[Emitted]:
        if channel.ended:
            raise ZeroDivisionError
        return take(channel, size, overhead)

    monkeypatch.setattr(Channel, "take", broken)
    with pytest.raises(aiohttp.ClientError):
        await still.events(path, still.job())
    assert still.count("streams_total", end="broken") == 1


async def _whole(executor: ServedExecutor, job: object) -> bytes:
    async with executor.open("/execute/sse", job) as response:
        return await response.read()
