"""Processes of entry points on the loop that services run on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import uvloop

from runtime.adapters.clock import SystemClock
from runtime.contract.states import ProgressStatus
from runtime.execution.entry_point import EntryPointEngine
from runtime.execution.process.starter import ProcessStarter
from runtime.ports.engine import RunContext, RunResult

ROOT = Path(__file__).parents[3]


async def _all_ways(log: list[Any]) -> None:
    clock = SystemClock()
    starter = ProcessStarter(clock, environment={"PYTHONPATH": str(ROOT)})

    async def emit(event_type: str, payload: object) -> None:
        log.append((event_type, payload))

    def run(function: str, value: object = None, seconds: float = 60) -> asyncio.Task[RunResult]:
        engine = EntryPointEngine(f"tests.support.entry_points:{function}", starter, clock)
        context = RunContext("r1", 1, {}, value, seconds, emit, asyncio.Event())
        return asyncio.create_task(engine.run(context))

    assert (await run("echo", "x" * 200_000)).output == "x" * 200_000
    assert (await run("events", 500)).status is ProgressStatus.COMPLETED
    assert (await run("spins", seconds=0.5)).status is ProgressStatus.TIMEOUT
    assert (await run("vanishes", 3)).error == "the job's process exited with code 3 before it returned"
    for turns in range(15):
        lost = run("echo", "lost")
        for _ in range(turns):
            await asyncio.sleep(0)
        lost.cancel()
        await asyncio.wait([lost])
    assert (await run("echo", "kept")).output == "kept"
    await starter.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_runs_end_in_all_ways_on_the_loop_of_a_service() -> None:
    log: list[Any] = []
    uvloop.run(_all_ways(log))
    assert [payload for name, payload in log if name == "tick"] == list(range(500))
