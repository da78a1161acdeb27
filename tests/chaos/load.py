"""Messages of several kinds, sent as callers send them: through the API, each repeated until it is accepted.

The API is not the bottleneck here: what it spends on accepting a run is less than what the run costs it afterwards, so
signing and publishing beside it would save little and prove less.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from runtime.contract.states import RunState
from sandbox.pubsub.message import Draft
from tests.support.local import RunningStack

LANES: Final = 12
"""Callers at a time."""
EFFECT_FLOW: Final = {
    "start": "tell",
    "nodes": {"tell": {"type": "emit", "event": "effect", "payload": {"run": "${run.id}"}}},
}
FAILING_FLOW: Final = {"start": "no", "nodes": {"no": {"type": "fail", "message": "as ordered"}}}
AGAIN_SECONDS: Final = 0.2


@dataclass
class Load:
    """What is sent, and what became of the sending.

    Attributes:
        running: the stack.
        name: first part of every run's id.
        marks: file of the entry point's effects.
        runs: id of each accepted run -> the state that its work ends in.
        marked: those of them that leave a mark.
        unreadable: messages that are no job.
        repeats: requests that had to be sent again.
    """

    running: RunningStack
    name: str
    marks: Path
    runs: dict[str, RunState] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    unreadable: int = 0
    repeats: int = 0

    @property
    def sent(self) -> int:
        return len(self.runs) + self.unreadable

    async def send(self, messages: int, until: float) -> None:
        """Sends so many, or as many as there is time for, on the monotonic clock."""
        numbers = iter(range(messages))

        async def lane() -> None:
            for number in numbers:
                if time.monotonic() >= until:
                    return
                await self._send(number)

        await asyncio.gather(*(lane() for _ in range(LANES)))

    async def _send(self, number: int) -> None:
        if number % 100 == 0:
            topic = str(self.running.stack.deployment.outputs["execution_topic"])
            await self.running.stack.pubsub.publish(topic, [Draft(data=f"no job {number}".encode())])
            self.unreadable += 1
            return
        run_id = f"{self.name}-{number}"
        body: dict[str, Any] = {"run_id": run_id, "engine": "flow", "flow": EFFECT_FLOW, "input": None}
        end = RunState.SUCCEEDED
        if number % 100 == 1:
            body["flow"], end = FAILING_FLOW, RunState.FAILED
        elif number % 50 == 2:
            body = {"run_id": run_id, "engine": "effect", "input": {"marks": str(self.marks)}}
            self.marked.add(run_id)
        while not await self._accepted(body):
            self.repeats += 1
            await asyncio.sleep(AGAIN_SECONDS)
        self.runs[run_id] = end

    async def _accepted(self, body: dict[str, Any]) -> bool:
        try:
            async with self.running.session.post("/v1/runs", json=body) as response:
                await response.read()
                if response.status in {400, 401, 403, 404, 409, 422}:
                    raise RuntimeError(f"the API refuses {body['run_id']}: {response.status} {await response.text()}")
                return response.status in {200, 202}
        except aiohttp.ClientError:
            return False
