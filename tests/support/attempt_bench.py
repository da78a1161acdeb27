"""One attempt, its API and its engine, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from runtime.execution.attempt import AttemptTools, run_attempt
from runtime.execution.outcome import AttemptEnd
from tests.support.run_api import LEASE, RunApi, accepted, job
from tests.support.scripted_engine import Script, ScriptedEngine, completes


class AttemptBench:
    """One attempt, its API and its engine."""

    def __init__(self, api: RunApi, script: Script) -> None:
        self.api = api
        self.clock = api.bench.clock
        self.engine = ScriptedEngine(script)
        self.stop = asyncio.Event()
        self.tools = AttemptTools(
            clock=self.clock,
            connect=lambda _job: api,
            engine={"scripted": self.engine}.get,
            lease=LEASE,
            park=timedelta(seconds=180),
        )

    async def attempt(self, seconds: float = 570, **changes: Any) -> AttemptEnd:
        deadline = self.clock.monotonic() + seconds
        return await run_attempt(job(**changes), self.tools, deadline=deadline, stop=self.stop)

    async def ended(self, **changes: Any) -> AttemptEnd:
        """The end of an attempt that has all the time it needs."""
        return await self.api.bench.within(self.attempt(**changes))

    async def types(self) -> list[str]:
        record = await self.api.bench.record()
        return [str(event["event_type"]) for event in await self.api.bench.log.read(record, -1)]


async def bench(script: Script | None = None, **options: Any) -> AttemptBench:
    return AttemptBench(await accepted(**options), script or completes({"n": 1}))
