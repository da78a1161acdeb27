"""Servers of the test on this machine: one that answers for a host of the platform, and one that never answers."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandbox.network import Address, Hosts, LoopbackConnector

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port of this machine where connections are refused, kept from everybody else."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        yield port


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
