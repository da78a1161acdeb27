"""The API and an executor on loopback ports, each served as its process serves it, over one store in memory."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
from aiohttp import web

from runtime.adapters.clock import ManualClock, SystemClock
from runtime.adapters.memory import MemoryDocuments
from runtime.api.app import create_app
from runtime.api.deps import ApiDeps
from runtime.api.executor_client import ExecutorClient
from runtime.contract import names
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.words import PushAuth
from runtime.execution.callbacks import CallbackRules, ExecutionCallbacks
from runtime.execution.job import Job
from runtime.execution.registry import Engines
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Key
from runtime.ports.tokens import TokenUnavailable
from runtime.runner import runner_of
from runtime.server import Lifecycle
from tests.support.api_bench import ScriptedPublisher
from tests.support.faulty_documents import FaultyDocuments
from tests.support.google_tokens import KeyServer
from tests.support.job_keys import pair
from tests.support.served_executor import ServedExecutor
from tests.support.settings import api_env

SECRET = "s" * 40
HEADERS = {"Authorization": f"Bearer hf_root_{SECRET}", "Content-Type": "application/json"}
ENGINES = "flow,counts=a:b,waits=a:b,stops=a:b,speaks=a:b"


class IdTokens:
    """Tokens whose audiences are kept; none while `failing`."""

    def __init__(self) -> None:
        self.audiences: list[str] = []
        self.failing = False

    async def access_token(self, scope: str) -> str:
        raise AssertionError("the API calls no API of Google's here")

    async def id_token(self, audience: str) -> str:
        self.audiences.append(audience)
        if self.failing:
            raise TokenUnavailable("the metadata server does not answer")
        return "id.token.of-the-api"


class WaitedApi:
    """An API with an executor.

    Args:
        executor: its port.
        env: changes of the environment.
        memory: the store; None makes one.
    """

    def __init__(
        self, executor: int, env: Mapping[str, str] | None = None, memory: MemoryDocuments | None = None
    ) -> None:
        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        self.settings = ApiSettings.from_env(
            api_env(API_KEY_HASHES=f"root={digest}", EXECUTION_ENGINES=ENGINES, **(env or {}))
        )
        self.clock = SystemClock()
        self.memory = memory or MemoryDocuments(self.clock, indexes=names.INDEXES)
        self.documents = FaultyDocuments(self.memory)
        self.publisher = ScriptedPublisher(ManualClock())
        self.lifecycle = Lifecycle(self.clock)
        self.metrics = Metrics()
        self.tokens = IdTokens()
        self.outgoing = aiohttp.ClientSession(trust_env=False)
        keys = pair().keys
        google = KeyCache(KeyServer(), self.clock)
        self.app = create_app(
            ApiDeps(
                settings=self.settings,
                documents=self.documents,
                publisher=self.publisher,
                service_tokens=PushVerifier(
                    PushAuth.IN_PROCESS, self.settings.tick_service_account, google, self.clock
                ),
                signer=JobSigner(keys.private_pem, self.settings.backend_kid),
                verifier=JobVerifier(keys.public_pem, self.settings.backend_kid),
                engines=Engines(self.settings.engines),
                clock=self.clock,
                lifecycle=self.lifecycle,
                metrics=self.metrics,
                executor=ExecutorClient(
                    self.outgoing, f"http://127.0.0.1:{executor}", self.tokens, self.clock, version="test"
                ),
            )
        )
        self._runner = runner_of(self.app, lingering_time=0.1, shutdown_timeout=1)
        self.port = 0

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self.lifecycle.ready()
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", headers=HEADERS, trust_env=False)

    async def stop(self) -> None:
        self.lifecycle.drain()
        await self.lifecycle.settled(8)
        await self.session.close()
        await self._runner.cleanup()
        await self.outgoing.close()

    @asynccontextmanager
    async def post(
        self, body: Mapping[str, object], accept: str = "*/*", path: str = "/v1/runs"
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body is not read yet."""
        data = io.BytesIO(json.dumps(body).encode())
        async with self.session.post(path, data=data, headers={"Accept": accept}) as response:
            yield response

    async def run(self, run_id: str = "r1", **more: Any) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a request for a run of mode `sync`; `more` replaces its members."""
        body = {"run_id": run_id, "engine": "counts", "mode": "sync", **more}
        async with self.post(body) as response:
            return response.status, await response.json(content_type=None)

    async def stream(
        self, run_id: str = "r1", accept: str = "application/x-ndjson", **more: Any
    ) -> list[dict[str, Any]]:
        """Every event of a run of mode `stream`."""
        async with self.post(self.wanted(run_id, **more), accept) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == accept
            return events(await response.read(), accept)

    @staticmethod
    def wanted(run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """The body of a request for a streamed run."""
        return {"run_id": run_id, "engine": "counts", "mode": "stream", **more}

    async def record(self, run_id: str = "r1") -> dict[str, Any]:
        """The run as callers see it."""
        async with self.session.get(f"/v1/runs/{run_id}") as response:
            assert response.status == 200
            record: dict[str, Any] = await response.json()
            return record

    async def ended(self, run_id: str = "r1") -> dict[str, Any]:
        """The run, once it has ended."""
        async with asyncio.timeout(30):
            while await self._member(run_id, "completed_at") is None:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)
        return await self.record(run_id)

    async def spoke(self, run_id: str = "r1") -> None:
        """Returns once an event of the run is recorded."""
        async with asyncio.timeout(30):
            while not await self._member(run_id, "next_sequence"):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    async def cancel(self, run_id: str = "r1") -> int:
        """The status of a request to cancel."""
        async with self.session.post(f"/v1/runs/{run_id}/cancel") as response:
            return response.status

    async def counted(self, name: str, **labels: str) -> None:
        """Returns once a counter has counted."""
        async with asyncio.timeout(30):
            while not self.count(name, **labels):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    async def _member(self, run_id: str, name: str) -> object:
        """Of the run's document; None where there is none."""
        document = await self.memory.get(Key(names.RUNS, run_id))
        return None if document is None else document.data.get(name)

    @property
    def callers(self) -> set[int]:
        """Ports of the callers that are connected."""
        server = self._runner.server
        assert server is not None
        transports = [connection.transport for connection in server.connections]
        return {transport.get_extra_info("peername")[1] for transport in transports if transport is not None}

    async def without(self, *ports: int) -> None:
        """Returns once callers are not connected any more."""
        async with asyncio.timeout(30):
            while self.callers & set(ports):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)

    def count(self, name: str, **labels: str) -> float:
        """A counter's value; 0 where it has none."""
        return self.metrics.registry.get_sample_value(name, labels) or 0


@asynccontextmanager
async def served_pair(
    env: Mapping[str, str] | None = None, **deps: Any
) -> AsyncIterator[tuple[WaitedApi, ServedExecutor]]:
    """An API and its executor, whose callbacks go to that API.

    Args:
        env: changes of the API's environment.
        deps: changes of what the executor is given.
    """
    async with aiohttp.ClientSession(trust_env=False) as session:
        rules = CallbackRules(version="test", timeout=timedelta(seconds=30))

        def connect(job: Job) -> ExecutionCallbacks:
            return ExecutionCallbacks(
                session, f"http://127.0.0.1:{api.port}", job.token, clock=executor.clock, rules=rules
            )

        executor = ServedExecutor(**{"connect": connect, **deps})
        await executor.start()
        api = WaitedApi(executor.port, env)
        await api.start()
        try:
            yield api, executor
        finally:
            await api.stop()
            await executor.stop()


def events(data: bytes, accept: str) -> list[dict[str, Any]]:
    """The events of a stream's bytes; what is said beside an event of the second form must be its own."""
    if accept == "application/x-ndjson":
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]
    found = []
    for message in data.decode().split("\n\n"):
        if message == "" or message.startswith(":"):
            continue
        fields = dict(line.split(": ", 1) for line in message.split("\n"))
        event = json.loads(fields["data"])
        assert (fields["id"], fields["event"]) == (event["event_id"], event["event_type"])
        found.append(event)
    return found
