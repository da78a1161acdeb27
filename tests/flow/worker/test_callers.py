"""Who calls and how, over real sockets: headers that must not count, and what a refused body may cost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import pytest

from runtime.contract.limits import MIB, PUSH_ENVELOPE_BYTES
from runtime.http.server.body import Body
from runtime.http.server.connection import Connection
from tests.support.deliveries import GOOD, envelope
from tests.support.served_worker import ServedWorker
from tests.support.waiting import until

NAME: Final = "worker-abc-uc.a.run.app"
HOST: Final = f"Host: {NAME}"


async def status_of(served: ServedWorker, *headers: str, body: bytes = GOOD) -> int:
    answer = await served.raw("POST / HTTP/1.1", *headers, f"Content-Length: {len(body)}", body=body)
    return int(answer.split()[1])


async def test_a_token_in_another_header_is_none(served: ServedWorker) -> None:
    """BR-29"""
    assert await status_of(served, HOST, f"X-Serverless-Authorization: {served.bearer}") == 401


@pytest.mark.parametrize("forwarded", ["X-Forwarded-Host: evil.test", "Forwarded: host=evil.test"])
async def test_no_forwarded_header_makes_an_audience(forwarded: str) -> None:
    """BR-28"""
    async with ServedWorker(push_audience=None) as served:
        evil = served.identity.token(aud="https://evil.test").decode()
        assert await status_of(served, HOST, forwarded, f"Authorization: Bearer {evil}") == 401
        assert await status_of(served, HOST, forwarded, f"Authorization: {served.bearer}") == 204


@pytest.mark.parametrize("host", [f"{NAME}:8443", "a@b", "", "a.run.app, b"])
async def test_a_host_header_that_is_no_host_is_refused(host: str) -> None:
    """BR-28"""
    async with ServedWorker(push_audience=None) as served:
        assert await status_of(served, f"Host: {host}", f"Authorization: {served.bearer}") in {400, 401}


async def test_a_pinned_audience_is_checked_whatever_host_is_called(served: ServedWorker) -> None:
    """BR-28"""
    evil = served.identity.token(aud="https://evil.test").decode()
    assert await status_of(served, "Host: evil.test", f"Authorization: Bearer {evil}") == 401


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=utf-16", '{"message":{}}'.encode("utf-16")),
        ("application/json", b"[" * 20000 + b"]" * 20000),
    ],
    ids=["utf-16", "nested"],
)
async def test_a_body_that_breaks_parsers_is_refused_and_the_worker_goes_on(
    served: ServedWorker, kind: str, body: bytes
) -> None:
    """BR-07, BR-09"""
    assert await served.push(body, **{"Content-Type": kind}) == (500, "envelope_malformed")
    assert await status_of(served, HOST, body=body) == 401, "who asks comes first"
    assert await served.push() == (204, "")


async def test_what_is_no_delivery_is_counted_as_unmatched(served: ServedWorker) -> None:
    """BR-11"""
    for path in ("//", "/index"):
        await served.raw(f"POST {path} HTTP/1.1", HOST, "Content-Length: 0")
    labels = {"route": "unmatched", "method": "POST", "status": "404"}
    assert served.metrics.registry.get_sample_value("http_requests_total", labels) == 2


async def test_refused_sizes_are_counted_by_their_reason(served: ServedWorker) -> None:
    """BR-10"""
    body = envelope(attributes={"pad": "x" * PUSH_ENVELOPE_BYTES})
    assert await served.push(body) == (413, "envelope_too_large")
    labels = {"outcome": "envelope_too_large"}
    assert served.metrics.registry.get_sample_value("deliveries_total", labels) == 1


async def test_parked_deliveries_leave_health_and_metrics_answerable(served: ServedWorker) -> None:
    """BR-52"""
    go_on = asyncio.Event()

    async def until_told(_stop: asyncio.Event) -> None:
        await go_on.wait()

    served.workload.run = until_told
    pushes = [asyncio.create_task(served.push())]
    await until(lambda: served.workload.active)
    pushes += [asyncio.create_task(served.push()) for _ in range(10)]
    parked = partial(served.metrics.registry.get_sample_value, "parked_deliveries")
    await until(lambda: parked() == 10)
    for path in ("/health/live", "/health/ready", "/metrics"):
        async with served.session.get(path) as response:
            assert response.status == 200
    served.lifecycle.drain()
    go_on.set()
    await asyncio.gather(*pushes)
    assert parked() == 0


class Intake:
    """What connections read from their sockets, and the most that one of them held of a body."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read = self.held = 0
        read, take = Connection.data_received, Body.take

        def counted(connection: Connection, data: bytes) -> None:
            self.read += len(data)
            read(connection, data)

        def taken(body: Body, part: bytes) -> None:
            take(body, part)
            self.held = max(self.held, body.held)

        patch.setattr(Connection, "data_received", counted)
        patch.setattr(Body, "take", taken)


HEAD: Final = ("POST / HTTP/1.1", HOST, "Authorization: Bearer a.b.c")
BLOCKS: Final = PUSH_ENVELOPE_BYTES // 65536


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
@pytest.mark.parametrize("lingering", [0, 10])
async def test_the_body_of_an_unknown_caller_costs_no_memory(
    monkeypatch: pytest.MonkeyPatch, *, lingering: float, chunked: bool
) -> None:
    """14 MiB are on their way before anybody could say no. Without lingering hardly any of it is read at all; with it,
    as served, it is read and dropped piece by piece so that the caller gets its answer."""
    intake = Intake(monkeypatch)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {PUSH_ENVELOPE_BYTES}"
    block = b"10000\r\n" + b" " * 65536 + b"\r\n" if chunked else b" " * 65536
    async with ServedWorker(lingering=lingering) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            "\r\n".join([*HEAD, length, "", ""]).encode() + block * BLOCKS + (b"0\r\n\r\n" if chunked else b"")
        )
        try:
            assert (await reader.readline()).split()[1] == b"401"
            await writer.drain()
        except ConnectionError:
            assert lingering == 0, "hung up on before all was taken"
        writer.close()
        if lingering:
            await until(lambda: intake.read > PUSH_ENVELOPE_BYTES)
    assert intake.held < MIB
    assert lingering or intake.read < MIB
    assert served.store.calls == ["get"], "the self check of the start, and nothing else"
