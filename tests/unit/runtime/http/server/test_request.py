"""What is a request, and what two readers could take for two different ones."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.http.server.limits import HEAD_BYTES, HEADERS, LINE_BYTES
from runtime.http.server.request import Malformed, Request, read_request


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read(*lines: str) -> Request:
    found = read_request(head(*lines))
    assert found is not None
    return found[0]


def refused(*lines: str) -> tuple[int, str]:
    with pytest.raises(Malformed) as caught:
        read_request(head(*lines))
    return caught.value.status, caught.value.kind


def test_a_head_is_read_with_what_stands_behind_it() -> None:
    found = read_request(head("POST /a?b=c HTTP/1.1", "Host: x", "Content-Length: 4", "A: 1", "a: \t2 ") + b"body")
    assert found is not None
    request, rest = found
    assert (request.method, request.path, request.length, rest) == ("POST", b"/a", 4, b"")
    assert request.body.at_hand() == b"body"
    assert (request.values(b"a"), request.text(b"a"), request.text(b"b")) == ((b"1", b"2"), "1,2", "")
    assert request.persistent


@pytest.mark.parametrize(
    ("target", "path"),
    [("/", b"/"), ("/?x=/y", b"/"), ("//", b"//"), ("/%2e%2e", b"/%2e%2e"), ("*", b"*"), ("http://a/b?c", b"/b"),
     ("http://a", b"/"), ("http://a?b", b"/")],
)  # fmt: skip
def test_a_path_is_taken_as_it_is(target: str, path: bytes) -> None:
    assert read(f"GET {target} HTTP/1.1", "Host: x").path == path


@pytest.mark.parametrize(
    "lines",
    [
        ("POST /",),
        ("POST / HTTP/0.9", "Host: x"),
        ("POST / HTTP/1.2", "Host: x"),
        ("POST / HTTP/2.0", "Host: x"),
        ("PRI * HTTP/2.0", "", "SM"),
        ("DESCRIBE / RTSP/1.0", "Host: x"),
        ("BREW / HTTP/1.1", "Host: x"),
        ("post / HTTP/1.1", "Host: x"),
        ("POST /a b HTTP/1.1", "Host: x"),
        ("POST /\xff HTTP/1.1", "Host: x"),
        ("POST http://[::1/ HTTP/1.1", "Host: x"),
        ("POST http://a:99999/ HTTP/1.1", "Host: x"),
        ("POST / HTTP/1.1",),
        ("POST / HTTP/1.1", "Host: x", "Host: x"),
        ("POST / HTTP/1.1", "Host: x", "no colon"),
        ("POST / HTTP/1.1", "Host: x", "A : b"),
        ("POST / HTTP/1.1", "Host: x", ": b"),
        ("POST / HTTP/1.1", "Host: x", "A: b", " folded"),
        ("POST / HTTP/1.1", "Host: x", "A: b\x00"),
        ("POST / HTTP/1.1", "Host: x", "A: b\nB: c"),
        ("POST / HTTP/1.1", "Host: x", "A: b\rB: c"),
    ],
    ids=lambda lines: " | ".join(lines).encode("unicode_escape").decode(),
)
def test_what_is_no_request_is_refused(lines: tuple[str, ...]) -> None:
    assert refused(*lines)[0] == 400


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: 5, 5",),
        ("Content-Length: -1",),
        ("Content-Length: +1",),
        ("Content-Length: 0x5",),
        ("Content-Length: 5 5",),
        ("Content-Length:",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: gzip",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: gzip"),
        ("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: \x0bchunked",),
        ("Transfer-Encoding: chunked", "Connection: Upgrade", "Upgrade: h2c"),
    ],
    ids=" | ".join,
)
def test_a_body_whose_end_could_be_told_in_two_ways_is_refused(lines: tuple[str, ...]) -> None:
    assert refused("POST / HTTP/1.1", "Host: x", *lines)[0] == 400


def test_chunks_are_of_http_1_1_alone() -> None:
    assert refused("POST / HTTP/1.0", "Transfer-Encoding: chunked") == (400, "unknown_framing")


@pytest.mark.parametrize(
    ("line", "fields", "persistent"),
    [
        ("GET / HTTP/1.1", (), True),
        ("GET / HTTP/1.1", ("Connection: close",), False),
        ("GET / HTTP/1.1", ("Connection: keep-alive, Close",), False),
        ("GET / HTTP/1.1", ("Connection: Upgrade", "Upgrade: h2c"), True),
        ("GET / HTTP/1.0", (), False),
        ("GET / HTTP/1.0", ("Connection: keep-alive",), False),
        ("POST / HTTP/1.1", ("Transfer-Encoding: chunked",), False),
    ],
)
def test_a_connection_goes_on_after_a_plain_request_of_http_1_1(
    line: str, fields: tuple[str, ...], *, persistent: bool
) -> None:
    assert read(line, "Host: x", *fields).persistent is persistent


def test_a_change_of_protocol_is_passed_over_and_the_body_still_counted() -> None:
    request = read("POST / HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3")
    assert request.body.feed(b"abcd") == b"d"
    assert request.body.at_hand() == b"abc"


def test_a_line_is_read_up_to_its_limit() -> None:
    line = f"GET /{'a' * (LINE_BYTES - 16)} HTTP/1.1"
    assert read(line, "Host: x").path.startswith(b"/aaa")
    assert refused(line.replace("/a", "/aa", 1), "Host: x") == (414, "line_too_long")
    with pytest.raises(Malformed, match="line_too_long"):
        read_request(b"G" * LINE_BYTES)


def test_a_head_is_read_up_to_its_limit() -> None:
    start = ("GET / HTTP/1.1", "Host: x")
    room = HEAD_BYTES - len(head(*start, "A: "))
    assert read(*start, f"A: {'a' * room}")
    assert refused(*start, f"A: {'a' * (room + 1)}") == (431, "head_too_long")
    assert read(*start, *(["A: a"] * (HEADERS - 1)))
    assert refused(*start, *(["A: a"] * HEADERS)) == (431, "too_many_headers")


@given(st.binary(max_size=200), st.data())
def test_a_head_means_the_same_however_it_arrives(tail: bytes, data: st.DataObject) -> None:
    """Either the rest is waited for, or what is read is what would be read of the whole."""
    whole = head("POST / HTTP/1.1", "Host: x", "Content-Length: 3") + tail
    at = data.draw(st.integers(0, len(whole)))
    found = read_request(whole)
    assert found is not None
    early = read_request(whole[:at])
    if early is not None:
        assert (early[0].path, early[0].fields) == (found[0].path, found[0].fields)
        left = early[1] + early[0].body.feed(whole[at:]) if not early[0].body.whole else early[1] + whole[at:]
        assert (left, early[0].body.at_hand()) == (found[1], found[0].body.at_hand())
    else:
        assert b"\r\n\r\n" not in whole[:at]


@given(st.binary(max_size=300))
def test_no_bytes_get_anything_but_a_request_a_refusal_or_patience(received: bytes) -> None:
    with contextlib.suppress(Malformed):
        found = read_request(received + b"\r\n\r\n")
        assert found is None or found[0].path
