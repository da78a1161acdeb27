"""The load of a benchmark: raw sockets and ready-made requests, in a process of its own on the other CPU.

python -m bench.load < specification > result        both JSON; see `fired`
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import uvloop

from bench.servers import LOAD_CPU, ROOT

UNIQUE: Final = "0" * 7 + "@" * 9
"""Stands for a message id in a request that is to have another one each time."""
WAIT_SECONDS: Final = 120

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MADE: Final = re.compile(rb'"made":(\d+)')
_EVENT: Final = b'"tick"'


def request(path: str, body: bytes, *headers: str) -> str:
    """A POST as the bytes that are sent, latin-1."""
    lines = [f"POST {path} HTTP/1.1", "Host: worker-123456789012.europe-west1.run.app",
             "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]  # fmt: skip
    return "\r\n".join([*lines, "", ""]) + body.decode("latin-1")


def fired(
    kind: str, port: int, requests: Sequence[str], *, status: int = 204, connections: int = 32, seconds: float = 2.0
) -> dict[str, Any]:
    """Fires one load and returns what it saw.

    Args:
        kind: `requests`: closed loop for `seconds` -> done, seconds, p50, p99 (ms);
            `streams`: each request once, read to its end -> events, seconds;
            and p50, p99 (us) from the making of an event that says when it was made to its arrival.
        port: of the server.
        requests: sent in turn.
        status: the only answer that counts.
        connections: of the closed loop.
        seconds: of the closed loop.

    Raises:
        RuntimeError: the server answered anything else.
    """
    asked = {
        "kind": kind, "port": port, "requests": list(requests), "status": status, "connections": connections,
        "seconds": seconds,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"], input=json.dumps(asked), cwd=ROOT, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU}),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the load on port {port} failed: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class _Loop:
    """What the connections of a closed loop share."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._requests: list[bytes] = [text.encode("latin-1") for text in asked["requests"]]
        self._unique = [UNIQUE.encode() in one for one in self._requests]
        self._number = 0
        self._base = int(time.time()) % 10**6 * 10**9
        self.status = str(asked["status"]).encode()
        self.over = False
        self.times: list[float] = []
        self.wrong: list[bytes] = []
        self.lost = 0

    def next(self) -> bytes:
        turn = self._number % len(self._requests)
        self._number += 1
        one: bytes = self._requests[turn]
        return one.replace(UNIQUE.encode(), b"%016d" % (self._base + self._number)) if self._unique[turn] else one


class _Caller(asyncio.Protocol):
    """One connection of a closed loop: the next request goes out when the last one is answered."""

    def __init__(self, loop: _Loop, again: Callable[[], None]) -> None:
        self._loop = loop
        self._again = again
        self._buffer = b""
        self._sent = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer = self._buffer + data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(buffer, 0, end)
        if len(buffer) < end + 4 + (int(length[1]) if length else 0):
            return
        self._loop.times.append(time.perf_counter() - self._sent)
        if buffer[9:12] != self._loop.status:
            self._loop.wrong.append(buffer[:200])
        self._buffer, self._sent = b"", 0.0
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._loop.over:
            self._loop.lost += bool(self._sent)
            self._again()

    def _send(self) -> None:
        assert self._transport is not None
        if self._loop.over:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(self._loop.next())


class _Reader(asyncio.Protocol):
    """Reads one stream to its end."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self._tail = b""
        self.head = b""
        self.events = 0
        self.late: list[int] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._sent)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        if len(self.head) < 12:
            self.head += data[:12]
        # An event's name may lie across two reads.
        self.events += data.count(_EVENT) + (self._tail + data[: len(_EVENT) - 1]).count(_EVENT)
        self._tail = data[1 - len(_EVENT) :]
        if len(data) < 2048 and (made := _MADE.search(data)) is not None:
            self.late.append(now - int(made[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def _requests(asked: dict[str, Any]) -> dict[str, Any]:
    loop, shared, tasks = asyncio.get_running_loop(), _Loop(asked), set()

    def connect() -> None:
        task = loop.create_task(loop.create_connection(lambda: _Caller(shared, connect), "127.0.0.1", asked["port"]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    began = time.perf_counter()
    for _ in range(asked["connections"]):
        connect()
    await asyncio.sleep(asked["seconds"])
    shared.over = True
    seconds, times = time.perf_counter() - began, sorted(shared.times)
    await asyncio.sleep(0.2)  # what is in flight arrives: the server's time for it is counted too
    if shared.wrong or shared.lost > len(times) // 1000 or not times:
        raise RuntimeError(f"{len(shared.wrong)} wrong answers, {shared.lost} lost, such as {shared.wrong[:1]}")
    return {"done": len(shared.times), "seconds": seconds, **_percentiles(times, 1000)}


async def _streams(asked: dict[str, Any]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    readers: list[_Reader] = []
    began = time.perf_counter()
    for text in asked["requests"]:
        make = functools.partial(_Reader, text.encode("latin-1"))
        _, reader = await loop.create_connection(make, "127.0.0.1", asked["port"])
        readers.append(reader)
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*(reader.ended for reader in readers))
    seconds = time.perf_counter() - began
    if any(reader.head[9:12] != b"200" for reader in readers):
        raise RuntimeError(f"not every stream was answered: {readers[0].head!r}")
    late = sorted(late for reader in readers for late in reader.late)
    return {"events": sum(reader.events for reader in readers), "seconds": seconds, **_percentiles(late, 1e-3)}


def _percentiles(ordered: Sequence[float], factor: float) -> dict[str, float]:
    if not ordered:
        return {}
    return {"p50": statistics.median(ordered) * factor, "p99": ordered[int(0.99 * len(ordered))] * factor}


if __name__ == "__main__":
    specification = json.load(sys.stdin)
    work = _requests if specification["kind"] == "requests" else _streams
    json.dump(uvloop.run(work(specification)), sys.stdout)
