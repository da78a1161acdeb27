"""One host of the platform, answered by a handler of the test on a real local server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandbox.network import Address, Hosts, LoopbackConnector

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(host: str, handler: Handler) -> AsyncIterator[aiohttp.ClientSession]:
    """A session to which `host`, and no other, is the local server; every path goes to the handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        port = server.port
        assert port is not None
        hosts = Hosts()
        hosts.add(host, Address(port=port))
        async with aiohttp.ClientSession(connector=LoopbackConnector(hosts), trust_env=False) as session:
            yield session
