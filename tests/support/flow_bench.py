"""Runs flows on a moved clock, with answers to their requests that a test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.adapters.clock import ManualClock
from runtime.contract.limits import EVENT_BYTES
from runtime.execution.flow.engine import FlowEngine
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.execution.values import encode
from runtime.ports.engine import RunContext, RunResult

Answers = Callable[[HttpRequest], Awaitable[HttpAnswer]]


async def _no_answer(request: HttpRequest) -> HttpAnswer:
    raise AssertionError(f"an unexpected request: {request.method} {request.url}")


@dataclass
class FlowBench:
    """One engine.

    Attributes:
        answers: what requests are answered with.
        events: what runs emitted, in order.
        requests: what runs requested.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    answers: Answers = _no_answer
    events: list[tuple[str, Any]] = field(default_factory=list)
    requests: list[HttpRequest] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """See HttpClient."""
        self.requests.append(request)
        return await self.answers(request)

    async def emit(self, event_type: str, payload: object) -> None:
        """Refuses what the real batcher refuses."""
        encode(payload, EVENT_BYTES)
        self.events.append((event_type, payload))

    def start(self, spec: Mapping[str, object], value: object = None, seconds: float = 60) -> asyncio.Task[RunResult]:
        """Starts a run."""
        context = RunContext("r1", 2, spec, value, seconds, self.emit, self.cancelled)
        return asyncio.create_task(FlowEngine(self.clock, self).run(context))

    async def run(self, spec: Mapping[str, object], value: object = None, seconds: float = 60) -> RunResult:
        """Runs to the end, moving the clock as the run waits."""
        task = self.start(spec, value, seconds)
        await self.clock.advance(0)
        while not task.done():
            await self.clock.advance(0.5)
        return await task

    def of(self, event_type: str) -> list[Any]:
        """The payloads of one type of event."""
        return [payload for name, payload in self.events if name == event_type]


def chain(*nodes: Mapping[str, object], **more: object) -> dict[str, object]:
    """A flow of nodes n0, n1, ... that follow each other."""
    named = {f"n{i}": {**node, **({"next": f"n{i + 1}"} if i + 1 < len(nodes) else {})} for i, node in enumerate(nodes)}
    return {"start": "n0", "nodes": named, **more}


def value_flow(value: object) -> dict[str, object]:
    """A flow whose output is one value."""
    return chain({"type": "set", "value": value})
