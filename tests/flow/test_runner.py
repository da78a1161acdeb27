"""The server under every role, where the application itself gives no answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from runtime.runner import runner_of


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[aiohttp.ClientSession]:
    runner = runner_of(app, lingering_time=0.1, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}", trust_env=False) as session:
        yield session
    await runner.cleanup()


@pytest.mark.parametrize("raised", [KeyError("hunter2"), TimeoutError("hunter2")])
async def test_an_error_that_no_middleware_caught_is_an_unavailable_service_in_plain_text(raised: Exception) -> None:
    """BR-11"""

    async def broken(_request: web.Request) -> web.Response:
        raise raised

    app = web.Application()
    app.router.add_post("/", broken)
    with capture_logs() as logs:
        async with served(app) as session, session.post("/", headers={"Accept": "text/html"}) as response:
            assert (response.status, response.content_type) == (503, "text/plain")
            assert await response.text() == "unhandled_error"
    assert [line["event"] for line in logs] == ["unhandled_error"]


async def test_a_body_is_asked_for_where_a_handler_reads_it_and_nowhere_else() -> None:
    async def reads(request: web.Request) -> web.Response:
        return web.Response(text=await request.text())

    app = web.Application()
    app.router.add_post("/", reads)
    async with served(app) as session:
        async with session.post("/", data=b"hello", expect100=True) as response:
            assert (response.status, await response.text()) == (200, "hello")
        port = session._base_url.port if session._base_url else 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert (await reader.read()).split()[1] == b"404"
        writer.close()
