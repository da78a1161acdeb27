"""Work that blocks: in a process of its own it costs no heartbeat, and it is dead before its claim is released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.adapters.clock import SystemClock
from runtime.contract.limits import MIB
from runtime.contract.states import ProgressStatus
from runtime.execution.entry_point import EntryPointEngine, ProcessLimits
from runtime.execution.process.starter import ProcessStarter
from runtime.observability.metrics import Metrics
from runtime.ports.engine import RunContext
from runtime.worker.workload import Ended
from tests.support.served_worker import ServedWorker
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()
BEAT = timedelta(seconds=0.2)
STALE = timedelta(seconds=30)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def starter(metrics: Metrics) -> AsyncIterator[ProcessStarter]:
    one = ProcessStarter(CLOCK, environment={"PYTHONPATH": str(ROOT)}, alive=metrics.isolated_processes)
    await one.start()
    yield one
    await one.stop()


async def nothing(event_type: str, payload: object) -> None:
    return None


def works(starter: ProcessStarter, served: ServedWorker, function: str, value: object, seconds: float) -> None:
    """Has the worker run a function of the tests' entry points."""
    engine = EntryPointEngine(
        f"tests.support.entry_points:{function}", starter, CLOCK, ProcessLimits(memory_bytes=1024 * MIB)
    )

    async def run(stop: asyncio.Event) -> Ended | None:
        result = await engine.run(RunContext("run-1", 1, {}, value, seconds, nothing, stop))
        return None if result.status is ProgressStatus.CANCELLED else Ended("completed")

    served.workload.run = run


async def test_a_busy_loop_costs_no_heartbeat_and_keeps_its_claim(starter: ProcessStarter) -> None:
    """BR-33: the report's 5 s, 30 s and 60 s, with a shorter beat."""
    async with ServedWorker(heartbeat=BEAT, stale_after=STALE) as served:
        works(starter, served, "spins", None, seconds=4)
        first = asyncio.create_task(served.push())
        await until(lambda: served.workload.active)
        again = asyncio.create_task(served.push())
        assert await first == (204, "")
        assert await again == (204, "")
        assert served.workload.runs == 1
        assert served.store.calls.count("commit") >= 2 + 8, "claim, settlement, and at least eight beats"
        samples = served.metrics.registry.get_sample_value
        assert (samples("claim_waits_total"), samples("claim_takeovers_total")) == (1, 0)


async def test_work_past_its_delivery_is_dead_before_another_may_begin(
    starter: ProcessStarter, metrics: Metrics, tmp_path: Path
) -> None:
    """BR-40"""
    second = timedelta(seconds=1)
    effect = tmp_path / "effect"
    async with ServedWorker(process_timeout=second, run_timeout=second) as served:
        works(starter, served, "has_an_effect_in_the_end", {"path": str(effect), "seconds": 3}, seconds=60)
        assert await served.push() == (503, "processing_timeout")
        assert await served.state() == "released"
        assert metrics.registry.get_sample_value("isolated_processes") == 0
        assert not effect.exists()
