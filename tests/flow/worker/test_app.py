"""The worker over real sockets: what reaches it, what it reads, what it answers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runtime.contract.limits import MIB, PUSH_ENVELOPE_BYTES
from runtime.ports.documents import StoreMisconfigured
from runtime.worker.workload import Ended
from tests.support.deliveries import GOOD, envelope
from tests.support.faulty_documents import Fault
from tests.support.served_worker import ServedWorker
from tests.support.waiting import until

HOST = "Host: worker-abc-uc.a.run.app"


def of_size(size: int) -> bytes:
    short = len(envelope(attributes={"pad": ""}))
    return envelope(attributes={"pad": "x" * (size - short)})


async def test_a_good_push_is_acknowledged_with_nothing(served: ServedWorker) -> None:
    assert await served.push() == (204, "")


async def test_a_refusal_says_its_code_in_plain_text(served: ServedWorker) -> None:
    async with served.session.post("/", data=GOOD) as response:
        assert (response.status, await response.text()) == (401, "push_token_rejected")
        assert response.content_type == "text/plain"


# --- sizes and encodings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "status"), [(PUSH_ENVELOPE_BYTES, 204), (PUSH_ENVELOPE_BYTES + 1, 413)])
async def test_a_body_is_taken_up_to_its_limit(served: ServedWorker, size: int, status: int) -> None:
    """BR-10"""
    body = of_size(size)
    assert len(body) == size
    assert (await served.push(body))[0] == status


async def test_a_body_without_a_length_is_cut_at_the_limit(served: ServedWorker) -> None:
    """BR-10"""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(PUSH_ENVELOPE_BYTES // MIB + 1):
            yield b" " * MIB

    assert await served.push(chunks()) == (413, "envelope_too_large")


async def test_a_body_without_a_length_is_taken_below_the_limit(served: ServedWorker) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(GOOD), 7):
            yield GOOD[start : start + 7]

    assert await served.push(chunks()) == (204, "")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"a" * 64 * MIB, 1)),
        ("gzip", b"\x1f\x8bnotgzip"),
        ("deflate", b"x"),
        ("br", b"x"),
        ("zstd", b"x"),
    ],
    ids=["bomb", "broken gzip", "deflate", "br", "zstd"],
)
async def test_no_body_is_inflated(served: ServedWorker, encoding: str, body: bytes) -> None:
    """BR-14"""
    assert await served.push(body, **{"Content-Encoding": encoding}) == (415, "unsupported_content_encoding")


@pytest.mark.parametrize("kind", ["application/json; charset=test", "application/json; charset=utf-16", "text/html"])
async def test_the_content_type_decides_nothing(served: ServedWorker, kind: str) -> None:
    """BR-09"""
    assert (await served.push(**{"Content-Type": kind}))[0] == 204


async def test_bad_utf_8_gets_our_own_answer(served: ServedWorker) -> None:
    """BR-09"""
    assert await served.push(b'{"a":"\xff"}') == (500, "envelope_malformed")


# --- what is not a delivery -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_only_post_delivers(served: ServedWorker, method: str) -> None:
    """BR-11"""
    async with served.session.request(method, "/", allow_redirects=False) as response:
        assert (response.status, response.content_type) == (405, "text/plain")
        assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["//", "/index", "/push", "/internal/tick", "/health/live"])
async def test_only_the_root_takes_deliveries(served: ServedWorker, path: str) -> None:
    """BR-11, BR-31"""
    head = (f"POST {path} HTTP/1.1", HOST, f"Authorization: {served.bearer}", f"Content-Length: {len(GOOD)}")
    assert (await served.raw(*head, body=GOOD)).split()[1] in {"404", "405"}


async def test_a_query_changes_nothing(served: ServedWorker) -> None:
    assert (await served.push(path="/?x=1"))[0] == 204


async def test_a_request_to_speak_another_protocol_is_ignored(served: ServedWorker) -> None:
    """BR-15"""
    head = (
        "POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", f"Content-Length: {len(GOOD)}",
    )  # fmt: skip
    assert (await served.raw(*head, body=GOOD)).split()[1] == "204"


async def test_an_http_2_preface_is_a_bad_request(served: ServedWorker) -> None:
    """BR-15"""
    assert (await served.raw("PRI * HTTP/2.0", "", "SM")).split()[1] == "400"


async def test_two_hosts_are_a_bad_request(served: ServedWorker) -> None:
    """BR-28"""
    assert (await served.raw("POST / HTTP/1.1", HOST, "Host: evil.test", "Content-Length: 0")).split()[1] == "400"


# --- before the body ------------------------------------------------------------------------------------------------


async def test_an_unknown_caller_is_answered_before_it_sends_a_body(served: ServedWorker) -> None:
    assert (await served.raw("POST / HTTP/1.1", HOST, "Content-Length: 1000000")).split()[1] == "401"
    assert served.store.calls == ["get"], "the self check of the start, and nothing else"


async def test_bytes_that_are_no_token_are_refused(served: ServedWorker) -> None:
    """BR-24"""
    head = ("POST / HTTP/1.1", HOST, "Authorization: Bearer \xff\xfe.a.b", "Content-Length: 1000000")
    assert (await served.raw(*head)).split()[1] == "401"


async def test_two_tokens_are_refused(served: ServedWorker) -> None:
    """BR-29"""
    tokens = [f"Authorization: {served.bearer}", "Authorization: Bearer a.b.c"]
    for first, second in (tokens, tokens[::-1]):
        answer = await served.raw("POST / HTTP/1.1", HOST, first, second, "Content-Length: 0")
        assert answer.split()[1] == "401"


async def test_no_body_is_asked_for_before_the_caller_is_known(served: ServedWorker) -> None:
    expect = ("Expect: 100-continue", f"Content-Length: {len(GOOD)}")
    assert (await served.raw("POST / HTTP/1.1", HOST, *expect)).split()[1] == "401"
    reader, writer = await served.connect("POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", *expect)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(GOOD)
    assert (await reader.readline()).split()[1] == b"204"
    writer.close()


async def test_a_body_that_breaks_off_makes_no_claim(served: ServedWorker) -> None:
    _, writer = await served.connect(
        "POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", f"Content-Length: {len(GOOD)}"
    )
    writer.write(GOOD[:10])
    await writer.drain()
    await until(lambda: served.lifecycle.in_flight)
    writer.close()
    await until(lambda: not served.lifecycle.in_flight)
    assert await served.state() is None


async def test_a_broken_chunk_makes_no_claim(served: ServedWorker) -> None:
    head = ("POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", "Transfer-Encoding: chunked")
    assert (await served.raw(*head, body=b"zz\r\n")).split()[1][0] in "45"
    assert await served.state() is None


# --- the caller hangs up --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_work_outlives_the_caller(served: ServedWorker, *, reset: bool) -> None:
    """BR-49"""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_stop: asyncio.Event) -> Ended:
        began.set()
        await go_on.wait()
        return Ended("completed")

    served.workload.run = slow
    _, writer = await served.connect(
        "POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", f"Content-Length: {len(GOOD)}"
    )
    writer.write(GOOD)
    await began.wait()
    if reset:
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    await writer.wait_closed()
    go_on.set()
    await until(lambda: not served.lifecycle.in_flight)
    assert await served.state() == "completed"
    assert (await served.push())[0] == 204
    assert served.workload.runs == 1


async def test_work_outlives_the_server(served: ServedWorker) -> None:
    """A server that gives up its connections cancels their handlers, and not what they began."""
    go_on = asyncio.Event()

    async def slow(_stop: asyncio.Event) -> Ended:
        await go_on.wait()
        return Ended("completed")

    served.workload.run = slow
    pushed = asyncio.create_task(served.push())
    await until(lambda: served.workload.active)
    await served.cut_off()
    await asyncio.wait({pushed})
    assert isinstance(pushed.exception(), aiohttp.ClientError)
    go_on.set()
    await until(lambda: not served.lifecycle.in_flight)
    assert await served.state() == "completed"


async def test_a_drain_answers_what_is_in_flight(served: ServedWorker) -> None:
    async def until_stopped(stop: asyncio.Event) -> None:
        await stop.wait()

    served.workload.run = until_stopped
    pushed = asyncio.create_task(served.push())
    await until(lambda: served.workload.active)
    served.lifecycle.drain()
    assert await pushed == (503, "worker_shutdown")
    assert await served.state() == "released"
    assert await served.push(envelope(message_id="2")) == (503, "worker_draining")


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raised", [KeyError("x"), SystemExit(1), asyncio.CancelledError()])
async def test_nothing_that_the_work_raises_reaches_the_broker_as_success(
    served: ServedWorker, raised: BaseException
) -> None:
    """BR-11"""

    async def broken(_stop: asyncio.Event) -> Ended:
        raise raised

    served.workload.run = broken
    assert await served.push() == (503, "execution_failed")


async def test_a_retry_says_when(served: ServedWorker) -> None:
    served.identity.keys.failing = True
    async with served.session.post("/", data=GOOD, headers={"Authorization": served.bearer}) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "10")


async def test_health_and_metrics_need_no_token(served: ServedWorker) -> None:
    await served.push()
    for path in ("/health/live", "/health/ready"):
        async with served.session.get(path) as response:
            assert response.status == 200
    async with served.session.get("/metrics") as response:
        text = await response.text()
    assert 'deliveries_total{outcome="completed"} 1.0' in text
    assert 'http_requests_total{method="POST",route="/",status="204"} 1.0' in text


async def test_health_goes_with_readiness_while_the_process_lives(served: ServedWorker) -> None:
    served.lifecycle.drain()
    for path, expected in (("/health/live", 200), ("/health/ready", 503), ("/health", 503)):
        async with served.session.get(path) as response:
            assert response.status == expected, f"{path} of a worker that drains"


# --- start and end --------------------------------------------------------------------------------------------------


async def test_a_store_that_will_go_on_refusing_stops_the_start() -> None:
    """BR-42"""
    worker = ServedWorker()
    worker.store.at(_0=Fault.MISCONFIGURED)
    with pytest.raises(StoreMisconfigured):
        await worker.start()
    await worker.stop()


async def test_a_store_that_is_away_delays_deliveries_and_not_the_start() -> None:
    worker = ServedWorker()
    worker.store.at(_0=Fault.DOWN, _1=Fault.DOWN)
    await worker.start()
    assert await worker.push() == (503, "claim_store_unavailable")
    assert await worker.push() == (204, "")
    await worker.stop()


async def test_the_end_closes_what_the_worker_was_given() -> None:
    worker = ServedWorker()
    await worker.start()
    await worker.stop()
    assert worker.workload.closed
