"""The executor on a loopback port, served as `runtime.server.serve` does, with engines that do what a test says."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import aiohttp
from aiohttp import web

from runtime.adapters.clock import SystemClock
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.states import ProgressStatus
from runtime.executor.app import RUNS, create_app
from runtime.executor.channel import ChannelRules
from runtime.executor.deps import ExecutorDeps
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.engine import RunContext, RunResult
from runtime.runner import runner_of
from runtime.server import Lifecycle
from tests.support.executor_bench import RecordedApi
from tests.support.job_keys import pair
from tests.support.scripted_engine import Script, ScriptedEngine
from tests.support.settings import executor_env

TYPES = {"/execute/stream": "application/x-ndjson", "/execute/sse": "text/event-stream"}


async def _counts(context: RunContext) -> RunResult:
    """Emits as many ticks as it is told, of the size that it is told, and completes with the number."""
    wanted = context.input if isinstance(context.input, dict) else {}
    for number in range(wanted.get("ticks", 3)):
        await context.emit("tick", {"n": number, "text": "x" * wanted.get("size", 0)})
    return RunResult(ProgressStatus.COMPLETED, output=wanted.get("ticks", 3))


class ServedExecutor:
    """The executor, its parts, and ways to reach it.

    Args:
        clock: None means the system's.
        env: changes of the environment.
        deps: changes of what the application is given.
    """

    def __init__(self, clock: Clock | None = None, env: Mapping[str, str] | None = None, **deps: Any) -> None:
        self.clock = clock or SystemClock()
        self.settings = ExecutorSettings.from_env(executor_env(**(env or {})))
        self.lifecycle = Lifecycle(self.clock)
        self.metrics = Metrics()
        self.apis: dict[str, RecordedApi] = {}
        self.engines = {"counts": ScriptedEngine(_counts)}
        keys = pair().keys
        self.signer = JobSigner(keys.private_pem, self.settings.backend_kid)
        given: dict[str, Any] = {
            "settings": self.settings,
            "verifier": JobVerifier(keys.public_pem, self.settings.backend_kid),
            "connect": lambda job: self.apis.setdefault(job.run_id, RecordedApi()),
            "engine": self.engines.get,
            "clock": self.clock,
            "lifecycle": self.lifecycle,
            "metrics": self.metrics,
            "stop_engines": self._stop_engines,
            "channel": ChannelRules(stall=timedelta(seconds=0.5)),
            "drain_grace": timedelta(seconds=0.2),
        }
        self.app = create_app(ExecutorDeps(**{**given, **deps}))
        self.engines_stopped = 0
        self._runner = runner_of(self.app, lingering_time=0.1, shutdown_timeout=1)
        self.port = 0

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self.lifecycle.ready()
        connector = aiohttp.TCPConnector(limit=0)
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", connector=connector, trust_env=False)

    async def stop(self) -> None:
        self.lifecycle.drain()
        await self.session.close()
        if isinstance(self.clock, SystemClock):
            await self.lifecycle.settled(8)
        await self._runner.cleanup()
        lingering = {task for task in asyncio.all_tasks() if "RequestHandler.start" in repr(task.get_coro())}
        if lingering:
            await asyncio.wait(lingering)

    def engine(self, name: str, script: Script) -> ScriptedEngine:
        """Adds an engine."""
        self.engines[name] = ScriptedEngine(script)
        return self.engines[name]

    def job(
        self, run_id: str = "r1", engine: str | None = "counts", *, sign: bool = True, **changes: Any
    ) -> dict[str, Any]:
        """A job as the API sends it; `lifetime` moves the token's end, in seconds; None leaves a member out."""
        lifetime = timedelta(seconds=changes.pop("lifetime", 3600))
        body: dict[str, Any] = {
            "job_id": f"{run_id}.1", "run_id": run_id, "app_id": "default", "user_id": "u", "engine": engine,
            "spec": {}, "payload": None, "timeout_ms": 60_000, "max_attempts": 1, "execution_mode": "stream",
            "callback_url": "https://api.example", "lease_token": "lease",
        }  # fmt: skip
        body = {name: value for name, value in {**body, **changes}.items() if value is not None}
        if sign:
            now = self.clock.now()
            body["executor_jwt"] = self.signer.sign(body, subject="u", lifetime=lifetime, now=now)
        return body

    @contextlib.asynccontextmanager
    async def open(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body is not read yet."""
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        sent = {"Content-Type": "application/json", **(headers or {})}
        async with self.session.post(path, data=data, headers=sent, allow_redirects=False) as response:
            yield response

    async def call(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, dict[str, Any]]:
        """Status, type and JSON of one call."""
        async with self.open(path, body, headers) as response:
            return response.status, response.content_type, await response.json(content_type=None)

    async def events(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Every event of a stream that is read to its end."""
        async with self.open(path, body, headers) as response:
            assert (response.status, response.content_type) == (200, TYPES[path])
            assert response.headers["Cache-Control"] == "no-cache"
            return read(path, await response.read())

    async def raw(self, path: str, body: bytes, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which a call was sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        writer.write("\r\n".join([*head, *lines, "", ""]).encode() + body)
        await writer.drain()
        return reader, writer

    def count(self, name: str, **labels: str) -> float:
        """A counter's value; 0 where it has none."""
        return self.metrics.registry.get_sample_value(name, labels) or 0

    @property
    def working(self) -> int:
        """Runs that have not ended."""
        return self.app[RUNS].working

    @property
    def connections(self) -> int:
        """Connections that the server holds."""
        server = self._runner.server
        return 0 if server is None else sum(each.transport is not None for each in server.connections)

    async def unconnected(self) -> None:
        """Returns once the server holds no connection."""
        async with asyncio.timeout(30):
            while self.connections:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    async def begun(self, engine: str, runs: int = 1) -> None:
        """Returns once so many runs of an engine have begun."""
        async with asyncio.timeout(20):
            while len(self.engines[engine].contexts) < runs:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    async def idle(self) -> None:
        """Returns once no run works and no request is open."""
        async with asyncio.timeout(20):
            while self.working or self.count("http_requests_in_flight"):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    async def _stop_engines(self) -> None:
        self.engines_stopped += 1


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def read(path: str, data: bytes) -> list[dict[str, Any]]:
    """The events of a stream's bytes."""
    if path == "/execute/stream":
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]
    if not data:
        return []
    events = []
    for message in data.decode().removesuffix("\n\n").split("\n\n"):
        if message.startswith(":"):
            continue
        fields = dict(line.split(": ", 1) for line in message.split("\n"))
        event = json.loads(fields["data"])
        assert (fields["id"], fields["event"]) == (event["event_id"], event["event_type"])
        events.append(event)
    return events
