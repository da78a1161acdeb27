"""Streams of the executor against streams as they are usually written: events a second, and a lone event's way out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import load
from bench.identities import Identities
from bench.servers import Server, go_program, python, running, tool
from bench.table import Row, Spread, Table, at_most, cheaper, left_out, more

STREAMS: Final = 100
LONE: Final = 400
"""Events of one stream that come alone, 4 ms apart."""
LONE_PAUSE: Final = 0.004

OURS: Final = "holdfast executor"
FASTAPI: Final = "FastAPI StreamingResponse"
GO: Final = "Go, write + flush per event"
SSE: Final = "sse-starlette"
WRITE: Final = "aiohttp, write per event"


@dataclass(frozen=True, slots=True)
class Case:
    """One server's way to stream."""

    server: Server
    path: str


class Jobs:
    """Jobs that were never sent before: the executor keeps a stream for its reader, and refuses the same job again."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._numbers = itertools.count()

    def request(self, path: str, payload: object, engine: str) -> str:
        body = self._identities.job(f"r{next(self._numbers)}", payload, engine=engine, mode="stream")
        return load.request(path, body, "Connection: close")


def uvicorn(app: str) -> list[str]:
    """A peer on uvicorn."""
    return [tool("uvicorn"), app, "--host", "127.0.0.1", "--port", "PORT", "--loop", "uvloop", "--http", "httptools",
            "--no-access-log", "--log-level", "warning"]  # fmt: skip


@contextlib.contextmanager
def servers(identities: Identities, folder: Path) -> Iterator[dict[str, Server]]:
    """Every server of streams, by its name."""
    commands = {
        OURS: python("-m", "bench.ours.executor", "PORT"),
        FASTAPI: uvicorn("bench.peers.fastapi_app:app"),
        SSE: uvicorn("bench.peers.sse_app:app"),
        WRITE: python("-m", "bench.peers.aiohttp_app", "stream", "PORT"),
    }
    go = go_program("stream.go", folder)
    if go is not None:
        commands[GO] = go
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(running(name, line, identities.file)) for name, line in commands.items()}


def compare(table: Table, identities: Identities, found: dict[str, Server], *, rounds: int, events: int) -> None:
    """Adds the rows of streams."""
    jobs = Jobs(identities)
    lines: dict[str, Case] = {
        name: Case(found[name], "/execute/stream") for name in (OURS, FASTAPI, GO) if name in found
    }
    rates, costs = _throughput(lines, jobs, rounds, events)
    for peer, least in ((FASTAPI, 6), (GO, 3)):
        table.add(*_rows("NDJSON, 100 streams", peer, least, rates, costs))
    messages = {name: Case(found[name], "/execute/sse") for name in (OURS, SSE)}
    rates, costs = _throughput(messages, jobs, rounds, events)
    table.add(*_rows("SSE, 100 streams", SSE, 15, rates, costs))
    late = _lone(found, jobs, rounds)
    table.add(
        at_most("lone event, p99 us", WRITE, late[OURS, "p99"], late[WRITE, "p99"], 1.2),
        at_most("lone event, p50 us", WRITE, late[OURS, "p50"], late[WRITE, "p50"]),
    )


def _throughput(
    cases: dict[str, Case], jobs: Jobs, rounds: int, events: int
) -> tuple[dict[str, Spread], dict[str, Spread]]:
    """Events a second, and CPU microseconds for each event."""
    rates: dict[str, list[float]] = {name: [] for name in cases}
    costs: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            sent = [jobs.request(case.path, events // STREAMS, "ticks") for _ in range(STREAMS)]
            before = case.server.cpu_seconds()
            seen = load.fired("streams", case.server.port, sent)
            cost = 1e6 * (case.server.cpu_seconds() - before) / events
            if seen["events"] != events // STREAMS * STREAMS:
                raise RuntimeError(f"{name} sent {seen['events']} events, {events} were asked for")
            if turn:
                rates[name].append(seen["events"] / seen["seconds"])
                costs[name].append(cost)
    return {n: Spread(v) for n, v in rates.items()}, {n: Spread(v) for n, v in costs.items()}


def _rows(measure: str, peer: str, least: float, rates: dict[str, Spread], costs: dict[str, Spread]) -> tuple[Row, ...]:
    if peer not in rates:
        return (left_out(f"{measure}, events/s", peer, "no `go` on PATH"),)
    return (
        more(f"{measure}, events/s", peer, rates[OURS], rates[peer], least),
        cheaper(f"{measure}, CPU us/event", peer, costs[OURS], costs[peer]),
    )


def _lone(found: dict[str, Server], jobs: Jobs, rounds: int) -> dict[tuple[str, str], Spread]:
    late: dict[tuple[str, str], list[float]] = {}
    wanted = {"count": LONE, "pause": LONE_PAUSE}
    for turn in range(rounds + 1):
        for name in (OURS, WRITE):
            sent = [jobs.request("/execute/stream", wanted, "paced")]
            seen = load.fired("streams", found[name].port, sent)
            for part in ("p50", "p99") if turn else ():
                late.setdefault((name, part), []).append(seen[part])
    return {key: Spread(values) for key, values in late.items()}
