"""Readers that take the last of a run slowly: all of it while they take something, and a cut where they do not.

Time is the test's; what the connection holds of its own is kept small.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator

import pytest

from runtime.adapters.clock import ManualClock
from tests.support.served_executor import ServedExecutor

STREAMS = ("/execute/stream", "/execute/sse")
TICKS = 90
PAYLOAD = {"ticks": TICKS, "size": 10_000}
"""Less than a channel holds: the run ends at once, and all of it waits for the reader."""


class SlowReader:
    """A caller with a small window, that reads when it is told to."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        self.socket.setblocking(False)
        self.data = b""
        self.ended = False

    async def call(self, executor: ServedExecutor, path: str, job: object = None, after: bytes = b"") -> None:
        """Sends a job, None: one that nobody has sent; or returns to its stream after an event."""
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, ("127.0.0.1", executor.port))
        body = json.dumps(job or executor.job(payload=PAYLOAD)).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if after:
            head += f"Last-Event-ID: {after.decode()}\r\n"
        await loop.sock_sendall(self.socket, head.encode() + b"\r\n" + body)

    async def take(self, size: int) -> None:
        """Reads so many bytes, or to the end; a connection that is broken off raises ConnectionError."""
        loop = asyncio.get_running_loop()
        while size > 0 and not self.ended:
            data = await asyncio.wait_for(loop.sock_recv(self.socket, min(size, 16 * 1024)), 30)
            size -= len(data)
            self.data += data
            self.ended = not data or self.data.endswith(b"\r\n0\r\n\r\n")

    def ticks(self) -> list[int]:
        """Numbers of the events that arrived."""
        return [int(number) for number in re.findall(rb'"event_type":"tick","payload":\{"n":(\d+)', self.data)]


@pytest.fixture
async def still() -> AsyncIterator[ServedExecutor]:
    """An executor whose time is the test's, and whose runs take at most 30 s."""
    executor = ServedExecutor(ManualClock(), {"EXECUTOR_TIMEOUT_SECS": "30"})
    await executor.start()
    yield executor
    await executor.stop()


async def called(executor: ServedExecutor, reader: SlowReader, path: str, job: object = None) -> ManualClock:
    """Has the run ended, with all of it on its way to the reader."""
    assert isinstance(executor.clock, ManualClock)
    await reader.call(executor, path, job)
    await executor.begun("counts")
    async with asyncio.timeout(30):
        while executor.working:
            await executor.clock.advance(0)
    return executor.clock


@pytest.mark.parametrize("path", STREAMS)
async def test_a_reader_that_is_slow_but_steady_gets_every_event(still: ServedExecutor, path: str) -> None:
    """BR-67, BR-72: it takes longer than a reader that takes nothing may."""
    reader = SlowReader()
    clock = await called(still, reader, path)
    began = clock.monotonic()
    while not reader.ended:
        await reader.take(200_000)
        await clock.advance(9)
    reader.socket.close()
    assert clock.monotonic() - began >= 40
    assert reader.ticks() == list(range(TICKS))
    assert b'"completed"' in reader.data
    await still.idle()
    assert still.count("streams_total", end="completed") == 1


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize(("size", "pause", "latest"), [(0, 11, 11), (60_000, 9, 63)], ids=["nothing", "too little"])
async def test_a_reader_that_takes_too_little_of_an_ended_run_is_cut_off(
    still: ServedExecutor, path: str, size: int, pause: int, latest: int
) -> None:
    """BR-67: what lacks its last event must not look whole; the platform would end the request soon anyway."""
    reader = SlowReader()
    clock = await called(still, reader, path)
    while still.count("http_requests_in_flight"):
        assert clock.monotonic() < latest
        await reader.take(size)
        await clock.advance(pause)
    with contextlib.suppress(ConnectionError):
        await reader.take(1_000_000)
    reader.socket.close()
    assert b'"completed"' not in reader.data
    assert not reader.data.endswith(b"\r\n0\r\n\r\n")
    assert still.count("streams_total", end="stalled") == 1


@pytest.mark.parametrize("path", STREAMS)
async def test_a_reader_that_was_replaced_in_the_midst_of_an_event_is_never_told_that_this_was_all(
    still: ServedExecutor, path: str
) -> None:
    """Its successor took the end: what the first one still gets is no whole stream."""
    job = still.job(payload={"ticks": 20, "size": 40_000})  # each event is several writes
    first, second = SlowReader(), SlowReader()
    await called(still, first, path, job)
    await first.take(500)
    begun = re.search(rb'"event_id":"(\S+?)","event_type":"run_initiated"', first.data)
    assert begun is not None
    await second.call(still, "/execute/sse", job, begun[1])
    await second.take(2_000_000)
    assert b'"completed"' in second.data
    assert second.ticks() == list(range(20))
    with contextlib.suppress(ConnectionError):
        await first.take(2_000_000)
    first.socket.close()
    second.socket.close()
    assert b'"completed"' not in first.data
    assert not first.data.endswith(b"\r\n0\r\n\r\n")
    await still.idle()
    assert still.count("streams_total", end="replaced") == 1
