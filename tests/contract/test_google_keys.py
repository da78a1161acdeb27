"""Fetching Google's signing keys from a real server that behaves well or badly."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from runtime.adapters import google_keys
from runtime.adapters.google_keys import BODY_BYTES, GoogleKeySource
from runtime.ports.tokens import TokenUnavailable
from sandbox.network import Hosts, LoopbackConnector
from tests.support.local_host import Handler, answering

HOST = "www.googleapis.com"
KEY = {"kid": "one", "kty": "RSA", "alg": "RS256", "n": "AQAB", "e": "AQAB", "use": "sig"}


@asynccontextmanager
async def source(handler: Handler) -> AsyncIterator[GoogleKeySource]:
    async with answering(HOST, handler) as session:
        yield GoogleKeySource(session)


def body(text: str | bytes, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        assert request.path == "/oauth2/v3/certs"
        return web.Response(body=text, status=status, headers={"Location": "/elsewhere"})

    return handler


async def test_the_key_set_is_read_by_key_id() -> None:
    other = {**KEY, "kid": "two"}
    async with source(body(json.dumps({"keys": [KEY, other]}))) as keys:
        assert await keys.fetch() == {"one": KEY, "two": other}


async def test_rows_without_a_key_id_are_left_out() -> None:
    rows = [KEY, {"kty": "RSA"}, {"kid": ""}, {"kid": 7}, None, "x"]
    async with source(body(json.dumps({"keys": rows}))) as keys:
        assert await keys.fetch() == {"one": KEY}


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><html>captive portal</html>",
        "",
        "[]",
        "{}",
        "null",
        '"keys"',
        '{"keys": {}}',
        '{"keys": []}',
        '{"keys": [{}]}',
        '{"keys": [{"kid": "one"',
        "[" * 100_000,
        b"\xff\xfe\x00",
    ],
    ids=lambda text: repr(text)[:20],
)
async def test_an_answer_that_is_no_key_set_is_a_failure(text: str | bytes) -> None:
    async with source(body(text)) as keys:
        with pytest.raises(TokenUnavailable):
            await keys.fetch()


@pytest.mark.parametrize("status", [204, 301, 302, 307, 401, 404, 429, 500, 503])
async def test_every_status_but_200_is_a_failure_and_no_redirect_is_followed(status: int) -> None:
    async with source(body(json.dumps({"keys": [KEY]}), status)) as keys:
        with pytest.raises(TokenUnavailable, match=str(status)):
            await keys.fetch()


async def test_an_answer_over_the_limit_is_a_failure_compressed_or_not() -> None:
    large = json.dumps({"keys": [KEY], "padding": "x" * BODY_BYTES}).encode()

    async def compressed(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(large), headers={"Content-Encoding": "gzip"})

    for handler in (body(large), compressed):
        async with source(handler) as keys:
            with pytest.raises(TokenUnavailable, match="more than 131072 bytes"):
                await keys.fetch()


async def test_an_answer_of_just_the_limit_is_taken() -> None:
    text = json.dumps({"keys": [KEY]})
    async with source(body(text + " " * (BODY_BYTES - len(text)))) as keys:
        assert await keys.fetch() == {"one": KEY}


async def test_a_server_that_goes_on_for_ever_is_left_at_the_limit() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
        except ConnectionError:
            return response

    async with source(endless) as keys:
        with pytest.raises(TokenUnavailable):
            await keys.fetch()


async def test_a_server_that_says_nothing_is_left_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(google_keys, "_TIMEOUT", aiohttp.ClientTimeout(total=0.1))
    async with source(silent) as keys:
        with pytest.raises(TokenUnavailable, match="Timeout"):
            await keys.fetch()


async def test_a_broken_connection_is_a_failure() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with source(broken) as keys:
        with pytest.raises(TokenUnavailable):
            await keys.fetch()


async def test_a_host_that_cannot_be_reached_is_a_failure() -> None:
    async with aiohttp.ClientSession(connector=LoopbackConnector(Hosts())) as session:
        with pytest.raises(TokenUnavailable, match="googleapis"):
            await GoogleKeySource(session).fetch()


def test_the_limits_are_those_of_the_contract() -> None:
    timeout = google_keys._TIMEOUT
    assert (timeout.total, timeout.connect, timeout.sock_connect, BODY_BYTES) == (10, 3, 3, 128 * 1024)
