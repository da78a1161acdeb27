"""A process that the kernel does not end: its guard never reports."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import cast

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.states import ProgressStatus
from runtime.execution.entry_point import EntryPointEngine
from runtime.execution.process.frames import STATUS, pack
from runtime.execution.process.run_process import RunProcess, connected_ends
from runtime.execution.process.starter import ProcessStarter
from runtime.observability.metrics import Metrics
from runtime.ports.engine import EngineStillRunning, RunContext, RunResult

RESULT = pack(b'{"kind":"result","output":{"output":1}}')


class SilentGuard:
    """Starts processes of which nothing is heard but what the test says.

    Attributes:
        guard: its side of the connection.
    """

    search_path = "nowhere"

    def __init__(self, clock: ManualClock, metrics: Metrics) -> None:
        self._clock = clock
        self.metrics = metrics
        self._ends, theirs = connected_ends()
        self.guard, self._job, self.frames, self._stdout, self._stderr = theirs
        assert isinstance(self.guard, socket.socket)

    async def spawn(self, job: bytes) -> RunProcess:
        return await RunProcess.open(self._clock, self._ends, job, self.metrics.isolated_processes)

    def says(self, frame: bytes) -> None:
        os.write(cast("int", self.frames), frame)

    def reports(self, status: int) -> None:
        cast("socket.socket", self.guard).sendall(STATUS.pack(status))

    def close(self) -> None:
        cast("socket.socket", self.guard).close()
        for descriptor in (self._job, self.frames, self._stdout, self._stderr):
            os.close(cast("int", descriptor))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def silent(clock: ManualClock) -> AsyncIterator[SilentGuard]:
    one = SilentGuard(clock, Metrics())
    yield one
    one.close()


def start(silent: SilentGuard, clock: ManualClock) -> asyncio.Task[RunResult]:
    async def emit(event_type: str, payload: object) -> None:
        """Nobody hears it."""

    engine = EntryPointEngine("a:b", cast("ProcessStarter", silent), clock)
    context = RunContext("r1", 1, {}, None, 60, emit, asyncio.Event())
    return asyncio.create_task(engine.run(context))


async def moved(clock: ManualClock, task: asyncio.Task[RunResult]) -> None:
    """Moves the clock until a task is done; what comes through pipes takes turns of the loop of its own."""
    for _ in range(1000):
        if task.done():
            return
        await clock.advance(0.1)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("how", ["with a result", "at its deadline", "cancelled"])
async def test_a_run_whose_process_is_not_known_to_be_gone_has_not_ended(
    silent: SilentGuard, clock: ManualClock, how: str
) -> None:
    """BR-40"""
    run = start(silent, clock)
    await clock.advance(1)
    if how == "with a result":
        silent.says(RESULT)
    elif how == "cancelled":
        run.cancel()
    await moved(clock, run)
    with pytest.raises(EngineStillRunning):
        await run
    alive = silent.metrics.registry.get_sample_value("isolated_processes")
    assert alive == 1, "it is counted for as long as it may live"


async def test_a_run_whose_process_is_gone_has_ended(silent: SilentGuard, clock: ManualClock) -> None:
    run = start(silent, clock)
    await clock.advance(1)
    silent.says(RESULT)
    silent.reports(0)
    await moved(clock, run)
    assert (await run).status is ProgressStatus.COMPLETED
    assert silent.metrics.registry.get_sample_value("isolated_processes") == 0
