"""A worker on a loopback port, served as `runtime.server.serve` does, over a store in memory."""

from __future__ import annotations

import asyncio
import io
import socket
from typing import Any, Self

import aiohttp

from runtime.adapters.clock import SystemClock
from runtime.adapters.memory import MemoryDocuments
from runtime.contract.dead_letter import message_key
from runtime.http.server.limits import Limits
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Key
from runtime.server import Lifecycle
from runtime.worker.app import WorkerApp, server_of
from runtime.worker.deps import WorkerDeps
from tests.support.claims import SUBSCRIPTION, settings
from tests.support.deliveries import GOOD, ScriptedWorkload
from tests.support.faulty_documents import FaultyDocuments
from tests.support.push_tokens import PushIdentity


class ServedWorker:
    """The worker, its parts, and ways to reach it."""

    def __init__(self, *, lingering: float = 0.1, **changes: Any) -> None:
        clock = SystemClock()
        self.settings = settings(**changes)
        self.identity = PushIdentity(clock)
        self.memory = MemoryDocuments(clock)
        self.store = FaultyDocuments(self.memory)
        self.workload = ScriptedWorkload()
        self.lifecycle = Lifecycle(clock)
        self.metrics = Metrics()
        deps = WorkerDeps(
            settings=self.settings,
            documents=self.store,
            push_verifier=self.identity.verifier(self.settings),
            workload=self.workload,
            clock=clock,
            lifecycle=self.lifecycle,
            metrics=self.metrics,
        )
        self.server = server_of(WorkerApp(deps), deps, Limits(linger=lingering))
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_about: object) -> None:
        await self.stop()

    async def start(self) -> None:
        await self.server.start()
        self.port = await self.server.listen(0, socket.create_server(("127.0.0.1", 0), backlog=1024))
        self.lifecycle.ready()
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", trust_env=False)

    async def stop(self) -> None:
        self.lifecycle.drain()
        if self.port:
            await self.session.close()
        await self.lifecycle.settled(8)
        await self.server.stop()

    async def cut_off(self) -> None:
        """Closes every connection, as a server does at the end of its patience."""
        await self.server.disconnect()

    async def push(self, body: Any = GOOD, *, path: str = "/", **headers: str) -> tuple[int, str]:
        """Status and text of one push with a good token."""
        headers = {"Authorization": self.bearer, **headers}
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.post(path, data=data, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text()

    async def connect(self, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which the head of a request was sent, and nothing of its body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await writer.drain()
        return reader, writer

    async def raw(self, *lines: str, body: bytes = b"") -> str:
        """The first line of the answer to a request that no client would send."""
        reader, writer = await self.connect(*lines)
        writer.write(body)
        try:
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()

    @property
    def bearer(self) -> str:
        return f"Bearer {self.identity.token().decode()}"

    async def state(self) -> object:
        """State of the claim of message 1001; None where there is none."""
        document = await self.memory.get(Key(self.settings.claims_collection, message_key(SUBSCRIPTION, "1001")))
        return None if document is None else document.data["state"]
