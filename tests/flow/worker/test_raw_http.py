"""Whatever bytes arrive: an answer of the table, or a closed connection; never a page or a 1xx of the framework.

Bytes that stop in the middle of a head are in `tests/unit/runtime/http/server/test_connection.py`: for a clock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from runtime.contract.outcomes import OUTCOMES
from runtime.worker.app import MALFORMED
from tests.support.deliveries import GOOD
from tests.support.served_worker import ServedWorker

PROTOCOL: Final = {400, 404, 405, 414, 431}
"""What is no delivery: no HTTP, no such path, no such method, a line or a head that is too long."""
TABLE: Final = {row.status for row in OUTCOMES.values()} | PROTOCOL
SENTINEL: Final = b"PUT /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
"""Follows what is sent, so that a last answer comes in any case; often enough to be left of where it is taken for a
body of any length here."""
TAIL: Final = SENTINEL * 250
LAST: Final = b"Allow: GET,HEAD"
"""In the answer to it, and in no other."""
HOST: Final = "Host: worker-abc-uc.a.run.app"
LENGTH: Final = f"Content-Length: {len(GOOD)}"


async def answers(served: ServedWorker, sent: bytes) -> bytes:
    """All that a connection answers, until it is closed or the sentinel is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    received = bytearray()
    try:
        writer.write(sent + TAIL)
        async with asyncio.timeout(60):
            while LAST not in received and (chunk := await reader.read(65536)):
                received += chunk
    except ConnectionError:
        pass
    finally:
        writer.close()
    return bytes(received)


def statuses(received: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/\d\.\d (\d{3}) ", received)]


LINES = [
    "GET / HTTP/1.1", "POST / HTTP/1.1", "POST / HTTP/1.0", "POST /", "POST / HTTP/2.0", "POST / HTTP/1.9",
    "HEAD / HTTP/1.1", "OPTIONS * HTTP/1.1", "POST http://evil.test/ HTTP/1.1", "POST //evil.test/ HTTP/1.1",
    "CONNECT a:443 HTTP/1.1", "TRACE / HTTP/1.1", "POST /../ HTTP/1.1", "POST /%2e%2e HTTP/1.1", "PRI * HTTP/2.0",
    "POST /?x=/health/live HTTP/1.1", "POST http://[::1/ HTTP/1.1", "POST http://a:99999/ HTTP/1.1", "BREW / HTTP/1.1",
]  # fmt: skip
VALID_HEADERS = [
    "Expect: 100-continue", "Expect: nonsense", "Transfer-Encoding: chunked", "Content-Length: 5",
    "Content-Length: 1000000", "Content-Encoding: gzip", "Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c",
    "Accept: text/html", "Authorization: Bearer a.b.c", "Authorization: Basic eA==", "Cookie: a=b",
]  # fmt: skip
HEADERS = [
    *VALID_HEADERS, HOST, "Host: evil.test", "Host: ", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip",
    "Content-Length: -1", "Content-Length: 5, 5", "no colon", " folded", "X: " + "a" * 33000,
]  # fmt: skip
BODIES = [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b"-1\r\n", b"F" * 40 + b"\r\n", b"5;x=y\r\nhello\r\n"]

TEXT = st.text(st.characters(max_codepoint=255), max_size=30)


def requests(
    lines: st.SearchStrategy[str], headers: st.SearchStrategy[list[str]], bodies: st.SearchStrategy[bytes]
) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda line, more, body: "\r\n".join([line, *more, "", ""]).encode("latin-1") + body, lines, headers, bodies
    )


LIKELY = requests(
    st.sampled_from(LINES),
    st.lists(st.sampled_from(VALID_HEADERS), max_size=2).map(lambda more: [HOST, *more]),
    st.just(b""),  # what follows one request is read with it, and where it is no request neither is answered
)
ANY = requests(
    st.sampled_from(LINES) | TEXT,
    st.lists(st.sampled_from(HEADERS) | TEXT, max_size=6),
    st.sampled_from(BODIES) | st.binary(max_size=40),
)


@settings(max_examples=25)
@given(st.lists(LIKELY | ANY, min_size=8, max_size=8))
def test_no_bytes_get_anything_but_an_answer_of_the_table_or_a_closed_connection(sent: list[bytes]) -> None:
    async def send() -> None:
        served = ServedWorker()
        await served.start()
        received = await asyncio.gather(*(answers(served, request) for request in sent))
        assert served.workload.runs == 0, "nobody here has a token"
        await served.stop()
        for request, answered in zip(sent, received, strict=True):
            assert set(statuses(answered)) <= TABLE - {204}, request
            assert b"<html" not in answered.lower(), request

    with capture_logs():
        asyncio.run(send())


MUTATIONS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["insert", "delete", "replace"]), st.binary(min_size=1, max_size=1)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=25)
@given(st.lists(MUTATIONS, min_size=8, max_size=8))
def test_a_good_request_with_bytes_changed_is_worked_at_most_once_and_answered_from_the_table(
    mutations: list[list[tuple[int, str, bytes]]],
) -> None:
    async def send() -> None:
        served = ServedWorker()
        await served.start()
        head = "\r\n".join(["POST / HTTP/1.1", HOST, f"Authorization: {served.bearer}", LENGTH, "", ""]).encode()
        received = await asyncio.gather(*(answers(served, _mutated(head, each) + GOOD) for each in mutations))
        await served.stop()
        assert served.workload.runs <= 1
        for answered in received:
            assert set(statuses(answered)) <= TABLE

    with capture_logs():
        asyncio.run(send())


def _mutated(head: bytes, mutations: list[tuple[int, str, bytes]]) -> bytes:
    changed = bytearray(head)
    for position, how, byte in mutations:
        # Half of a head is its token, which changes nothing but the token: aim at the rest as often.
        at = min(position if position < 200 else len(changed) - (position - 200), len(changed) - 1)
        if how == "insert":
            changed[at:at] = byte
        elif how == "delete":
            del changed[at]
        else:
            changed[at : at + 1] = byte
    return bytes(changed)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (("POST / HTTP/1.0", HOST, "@", LENGTH), 204),
        (("POST http://evil.test/ HTTP/1.1", HOST, "@", LENGTH), 204),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, "Expect: nonsense"), 204),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, "Accept: text/html", "Cookie: a=b"), 204),
        (("POST /", "", ""), 400),
        (("HEAD / HTTP/1.1", HOST), 405),
        (("OPTIONS / HTTP/1.1", HOST), 405),
        (("TRACE / HTTP/1.1", HOST), 405),
        (("PUT /health/live HTTP/1.1", HOST), 405),
        (("OPTIONS * HTTP/1.1", HOST), 404),
        (("POST /index HTTP/1.1", HOST, "@", LENGTH, "Expect: 100-continue"), 404),
        (("POST /index HTTP/1.1", HOST, "@", LENGTH, "Expect: nonsense", "Accept: text/html"), 404),
        (("GET /health/live HTTP/1.1", HOST, "Expect: 100-continue"), 200),
        (("GET /health/live/ HTTP/1.1", HOST), 404),
        (("BREW / HTTP/1.1", HOST), 400),
        (("POST / HTTP/1.1", "@", LENGTH), 400),
        (("POST / HTTP/1.1", HOST, HOST, "@", LENGTH), 400),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, "Content-Length: 3"), 400),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, "Transfer-Encoding: chunked"), 400),
        (("POST / HTTP/1.1", HOST, "@", "Content-Length: -1"), 400),
        (("POST / HTTP/1.1", HOST, "@", "Transfer-Encoding: nonsense"), 400),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, "X: " + "a" * 33000), 431),
        (("POST /" + "a" * 9000 + " HTTP/1.1", HOST, "@", LENGTH), 414),
        (("POST / HTTP/1.1", HOST, "@", LENGTH, *(f"X{n}: a" for n in range(500))), 431),
    ],
    ids=lambda value: " | ".join(value)[:70] if isinstance(value, tuple) else str(value),
)
async def test_a_request_of_an_unusual_form_gets_one_answer(
    served: ServedWorker, head: tuple[str, ...], expected: int
) -> None:
    """BR-11, BR-15; `@` stands for a good token."""
    lines = [f"Authorization: {served.bearer}" if line == "@" else line for line in head]
    reader, writer = await served.connect(*lines)
    writer.write(GOOD if LENGTH in head else b"")
    answer = await reader.readuntil(b"\r\n\r\n")
    assert statuses(answer) == [expected], "the first answer, and the only one"
    if expected not in {200, 204}:
        assert b"Content-Type: text/plain" in answer
    if expected in {400, 414, 431}:
        assert await reader.readexactly(len(MALFORMED)) == MALFORMED.encode()
    writer.close()


async def test_what_is_no_http_is_repeated_neither_in_the_answer_nor_in_the_log(
    served: ServedWorker, caplog: pytest.LogCaptureFixture, logs: list[MutableMapping[str, Any]]
) -> None:
    """BR-24"""
    sent = f"POST / HTTP/1.1\r\n{HOST}\r\nAuthorization: Bearer hunter2\x00\r\n\r\n".encode()
    received = await answers(served, sent)
    assert (statuses(received), received.endswith(MALFORMED.encode())) == ([400], True)
    assert [line["kind"] for line in logs if line["event"] == "request_malformed"] == ["Error"]
    assert "hunter2" not in f"{received!r}{logs}{caplog.text}"
    assert caplog.records == [], "no traceback either"
