"""A local stack under test: started from the real program, with short timeouts, and a client for its API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from sandbox.cloud_run.logs import LogLine
from sandbox.engine.deployment import Engine
from sandbox.engine.registration import Mutate, unchanged
from sandbox.local_stack import LocalOptions, LocalStack

ROOT = Path(__file__).parents[2]
WORKER = "holdfast-execution"
API = "holdfast-api"
QUICK: Mapping[str, Any] = {
    "holdfast:worker": {
        "request_timeout_seconds": 100,
        "run_timeout_seconds": 20,
        "heartbeat_seconds": 5,
        "stale_after_seconds": 30,
        "minimum_backoff_seconds": 0,
        "maximum_backoff_seconds": 1,
    }
}
"""The shortest times that the rules allow."""

HELLO: Mapping[str, Any] = {
    "start": "greet",
    "nodes": {
        "greet": {"type": "template", "template": "Hello ${input.name}", "next": "tell"},
        "tell": {"type": "emit", "event": "greeting", "payload": {"text": "$.nodes.greet.output"}, "next": None},
    },
    "output": "$.nodes.greet.output",
}


@dataclass
class Logs:
    """What the services wrote, as parsed objects where they are JSON."""

    lines: list[LogLine] = field(default_factory=list)

    def __call__(self, line: LogLine) -> None:
        self.lines.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Every line of one event name."""
        found = []
        for line in self.lines:
            try:
                body = json.loads(line.text)
            except ValueError:
                continue
            if isinstance(body, dict) and body.get("event") == name:
                found.append(body)
        return found

    def text(self) -> str:
        """Everything, for messages of failed asserts."""
        return "\n".join(f"{line.service}: {line.text}" for line in self.lines[-60:])


@dataclass
class RunningStack:
    """A stack that serves, and its API as a caller sees it."""

    stack: LocalStack
    session: aiohttp.ClientSession
    logs: Logs

    async def submit(self, **changes: Any) -> dict[str, Any]:
        """Creates a run, of the hello flow where nothing else is said."""
        body = {"engine": "flow", "flow": HELLO, "input": {"name": "Ada"}, **changes}
        async with self.session.post("/v1/runs", json={k: v for k, v in body.items() if v is not None}) as response:
            answer = await response.json()
            assert response.status in {200, 202}, answer
            return dict(answer)

    async def run(self, run_id: str) -> dict[str, Any]:
        """A run's record."""
        async with self.session.get(f"/v1/runs/{run_id}") as response:
            return dict(await response.json())

    async def ended(self, run_id: str, seconds: float = 60) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """A run that has ended, and all its events."""
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(seconds):
            while True:
                after = events[-1]["sequence"] if events else -1
                async with self.session.get(f"/v1/runs/{run_id}/events?after={after}&wait=20") as response:
                    page = await response.json()
                events += page["events"]
                if page["complete"]:
                    return await self.run(run_id), events

    async def kill(self, service: str) -> None:
        """Ends every instance of a service as a crash does, and waits until they are gone."""
        cloud_run = self.stack.cloud_run
        old = {instance.id for instance in cloud_run.instances(service)}
        cloud_run.kill(service)
        async with asyncio.timeout(20):
            while old & {instance.id for instance in cloud_run.instances(service)}:  # noqa: ASYNC110 - other processes end
                await asyncio.sleep(0.02)

    def counts(self) -> Any:
        """Where the messages of the execution subscription are."""
        subscription = self.stack.deployment.outputs["execution_subscription"]
        return self.stack.pubsub.counts()[str(subscription)]


@asynccontextmanager
async def local_stack(
    state_dir: Path,
    changes: Mapping[str, Any] | None = None,
    mutate: Mutate = unchanged,
    *,
    engine: Engine = Engine.EMBEDDED,
    with_policies: bool = True,
) -> AsyncIterator[RunningStack]:
    """Runs a stack for as long as the block lasts."""
    logs = Logs()
    options = LocalOptions(
        state_dir=state_dir,
        project_dir=ROOT,
        changes=QUICK if changes is None else changes,
        engine=engine,
        mutate=mutate,
        with_policies=with_policies,
        sink=logs,
    )
    async with LocalStack(options) as stack:
        headers = {"Authorization": f"Bearer {stack.keys.api_key}"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(stack.url, headers=headers, connector=connector) as session:
            yield RunningStack(stack, session, logs)
