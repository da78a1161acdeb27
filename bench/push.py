"""An authenticated push: the worker against what others write for the same endpoint, in server CPU per request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench import load
from bench.identities import Identities, push_body
from bench.servers import Server, go_program, python, running, tool
from bench.table import Spread, Table, at_most, cheaper, left_out

CACHED: Final = 4
"""Tokens in turn: the broker sends the same one for most of an hour."""
DISTINCT: Final = 2000
"""More than any cache here keeps, in turn: each is verified anew."""

OURS: Final = "holdfast worker"
SETTLED: Final = "holdfast worker, settled before"
DELIVERY: Final = "holdfast worker, whole delivery"
GO: Final = "Go net/http"
FASTAPI: Final = "FastAPI, uvicorn"
FUNCTIONS: Final = "functions-framework, gthread"

UNHANDLED: Final = "/robots.txt"
"""A path that functions-framework answers itself, without the function."""


def requests(identities: Identities, tokens: int) -> list[str]:
    """Pushes with so many tokens, each of a message of its own."""
    body = push_body(load.UNIQUE, identities.setup.subscription)
    return [load.request("/", body, f"Authorization: Bearer {identities.push_token(n)}") for n in range(tokens)]


def cpu_each(server: Server, sent: Sequence[str], seconds: float, connections: int = 32) -> tuple[float, float]:
    """CPU microseconds of the server for each request, and requests a second."""
    before = server.cpu_seconds()
    seen = load.fired("requests", server.port, sent, seconds=seconds, connections=connections)
    return 1e6 * (server.cpu_seconds() - before) / seen["done"], seen["done"] / seen["seconds"]


def in_turn(servers: Sequence[Server], measured: Callable[[Server], float], rounds: int) -> dict[str, Spread]:
    """One unrecorded round, then the recorded ones, every server in each."""
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for turn in range(rounds + 1):
        for server in servers:
            value = measured(server)
            if turn:
                found[server.name].append(value)
    return {name: Spread(values) for name, values in found.items()}


def compare(table: Table, identities: Identities, folder: Path, *, rounds: int, seconds: float) -> None:
    """Adds the rows of an authenticated push."""
    commands = {
        OURS: python("-m", "bench.ours.worker", "unclaimed", "PORT"),
        SETTLED: python("-m", "bench.ours.worker", "settled", "PORT"),
        DELIVERY: python("-m", "bench.ours.worker", "free", "PORT"),
        FASTAPI: [tool("uvicorn"), "bench.peers.fastapi_app:app", "--host", "127.0.0.1", "--port", "PORT", "--loop",
                  "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"],
        FUNCTIONS: [tool("functions-framework"), "--source", "bench/peers/functions_app.py", "--target", "push",
                    "--host", "127.0.0.1", "--port", "PORT"],
    }  # fmt: skip
    go = go_program("push.go", folder)
    if go is not None:
        commands[GO] = go
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(running(name, line, identities.file, path=UNHANDLED)) for name, line in commands.items()
        ]
        sent = requests(identities, CACHED)
        cached = in_turn(servers, lambda server: cpu_each(server, sent, seconds)[0], rounds)
        distinct = requests(identities, DISTINCT)
        verifying = [server for server in servers if server.name in (OURS, GO, FASTAPI)]
        verified = in_turn(verifying, lambda server: cpu_each(server, distinct, seconds)[0], rounds)
    _rows(table, cached, verified)


def _rows(table: Table, cached: dict[str, Spread], verified: dict[str, Spread]) -> None:
    push, settled, whole, fresh = (
        f"push, {what}, CPU us"
        for what in ("known token", "with a look at its claim", "whole delivery without store", "new token")
    )
    if GO in cached:
        table.add(
            at_most(push, GO, cached[OURS], cached[GO], 2.0),
            at_most(settled, GO, cached[SETTLED], cached[GO]),
            at_most(whole, GO, cached[DELIVERY], cached[GO]),
            at_most(fresh, GO, verified[OURS], verified[GO], 2.2),
        )
    else:
        table.add(*(left_out(measure, GO, "no `go` on PATH") for measure in (push, settled, whole, fresh)))
    table.add(
        cheaper(push, FASTAPI, cached[OURS], cached[FASTAPI], 2.7),
        cheaper(settled, FASTAPI, cached[SETTLED], cached[FASTAPI]),
        cheaper(whole, FASTAPI, cached[DELIVERY], cached[FASTAPI]),
        cheaper(fresh, FASTAPI, verified[OURS], verified[FASTAPI]),
        cheaper(push, FUNCTIONS, cached[OURS], cached[FUNCTIONS], 4.5),
        cheaper(settled, FUNCTIONS, cached[SETTLED], cached[FUNCTIONS]),
        cheaper(whole, FUNCTIONS, cached[DELIVERY], cached[FUNCTIONS]),
    )
