"""The API on a loopback port, served as `runtime.server.serve` does, over a store in memory and a moved clock."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import MemoryDocuments
from runtime.api.app import WATCH, create_app
from runtime.api.deps import ApiDeps
from runtime.contract import names
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.words import PushAuth
from runtime.execution.registry import Engines
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.documents import Query
from runtime.runner import runner_of
from runtime.server import Lifecycle
from tests.support.api_bench import ScriptedPublisher
from tests.support.faulty_documents import FaultyDocuments
from tests.support.google_tokens import KeyServer, google_token
from tests.support.job_keys import pair
from tests.support.settings import api_env

SECRET = "s" * 40
KEY = f"hf_root_{SECRET}"
LETTER_ACCOUNT = "letters@p-test.iam.gserviceaccount.com"
FLOW: dict[str, Any] = {"start": "a", "nodes": {"a": {"type": "set", "value": 1, "next": None}}}
COLLECTIONS = (names.RUNS, names.RUN_PAYLOADS, names.RUN_RESULTS, names.RUN_EVENTS, names.API_KEYS, names.DEAD_LETTERS)


class ServedApi:
    """The API, its parts, and ways to reach it."""

    def __init__(self) -> None:
        digest = hashlib.sha256(SECRET.encode()).hexdigest()
        self.settings = ApiSettings.from_env(
            api_env(
                API_KEY_HASHES=f"root={digest}",
                EXECUTION_ENGINES="flow,report=acme.reports:run",
                API_DEAD_LETTER_SERVICE_ACCOUNT=LETTER_ACCOUNT,
            )
        )
        self.clock = ManualClock()
        self.memory = MemoryDocuments(self.clock, indexes=names.INDEXES)
        self.documents = FaultyDocuments(self.memory)
        self.publisher = ScriptedPublisher(self.clock)
        self.lifecycle = Lifecycle(self.clock)
        self.metrics = Metrics()
        self.google = KeyServer()
        keys = pair().keys
        self.app = create_app(
            ApiDeps(
                settings=self.settings,
                documents=self.documents,
                publisher=self.publisher,
                service_tokens=PushVerifier(
                    PushAuth.IN_PROCESS,
                    self.settings.tick_service_account,
                    KeyCache(self.google, self.clock),
                    self.clock,
                ),
                signer=JobSigner(keys.private_pem, self.settings.backend_kid),
                verifier=JobVerifier(keys.public_pem, self.settings.backend_kid),
                engines=Engines(self.settings.engines),
                clock=self.clock,
                lifecycle=self.lifecycle,
                metrics=self.metrics,
                letter_tokens=PushVerifier(
                    PushAuth.IN_PROCESS, LETTER_ACCOUNT, KeyCache(self.google, self.clock), self.clock
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
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", trust_env=False)

    async def stop(self) -> None:
        self.lifecycle.drain()
        await self.session.close()
        await self._runner.cleanup()
        lingering = {task for task in asyncio.all_tasks() if "RequestHandler.start" in repr(task.get_coro())}
        if lingering:
            await asyncio.wait(lingering)

    async def call(
        self, method: str, path: str, body: object = None, *, key: str | None = KEY, **headers: str
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Status, JSON and headers of one request; `body` as bytes is sent as it is, with the type JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        data = None if raw is None else io.BytesIO(raw)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        async with self.session.request(method, path, data=data, headers=sent, allow_redirects=False) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else {}, response.headers

    async def submit(self, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """The answer to a run of the flow engine that is accepted."""
        status, answer, _ = await self.call(
            "POST", "/v1/runs", {"run_id": run_id, "engine": "flow", "flow": FLOW, **more}
        )
        assert status in {200, 202}, answer
        return answer

    def job_token(self, number: int = -1) -> str:
        """The token of a published job."""
        return str(self.publisher.messages[number][1]["payload"]["executor_jwt"])

    async def progress(self, token: str, status: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """A progress callback of run `r1`, with the token of the newest job."""
        body = {"job_id": "r1.1", "lease_token": token, "status": status, **more}
        code, answer, _ = await self.call("POST", names.CALLBACK_PROGRESS_PATH, body, key=self.job_token())
        return code, answer

    async def events(self, token: str, *events: Mapping[str, object]) -> tuple[int, dict[str, Any]]:
        """An events callback of run `r1`, with the token of the newest job."""
        body = {"job_id": "r1.1", "lease_token": token, "events": list(events)}
        code, answer, _ = await self.call("POST", names.CALLBACK_EVENTS_PATH, body, key=self.job_token())
        return code, answer

    def scheduler_token(self, **changes: Any) -> str:
        """A token of the scheduler as Google signs it; `changes` replace claims."""
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": "https://accounts.google.com", "aud": self.settings.base_url, "sub": "1",
            "email": self.settings.tick_service_account, "email_verified": True, "iat": now, "exp": now + 3600,
            **changes,
        }  # fmt: skip
        return google_token(claims)

    async def stored(self) -> list[str]:
        """`collection/id` of everything in the store."""
        return [
            f"{name}/{document.key.id}" for name in COLLECTIONS for document in await self.memory.query(Query(name))
        ]

    @property
    def waits(self) -> int:
        """Callers that wait for a run now."""
        return self.app[WATCH].waits
