"""The life of a process, without one: phases, drain, and the registry of work. Signals are in the flow tests."""

from __future__ import annotations

import asyncio
import math

from runtime.adapters.clock import ManualClock
from runtime.server import DRAIN_WORK_SECONDS, Lifecycle, Phase


async def test_a_process_accepts_work_until_it_drains() -> None:
    lifecycle = Lifecycle(ManualClock())
    seen = [(lifecycle.phase, lifecycle.accepting)]
    lifecycle.ready()
    seen.append((lifecycle.phase, lifecycle.accepting))
    lifecycle.drain()
    seen.append((lifecycle.phase, lifecycle.accepting))
    assert seen == [(Phase.STARTING, True), (Phase.READY, True), (Phase.DRAINING, False)]
    assert lifecycle.draining.is_set()


async def test_a_draining_process_never_becomes_ready_again() -> None:
    lifecycle = Lifecycle(ManualClock())
    lifecycle.drain()
    lifecycle.ready()
    assert lifecycle.phase is Phase.DRAINING


async def test_work_has_all_the_time_until_a_drain_begins_and_a_second_one_gives_it_no_more() -> None:
    clock = ManualClock()
    lifecycle = Lifecycle(clock)
    assert lifecycle.work_until == math.inf
    await clock.advance(5)
    lifecycle.drain()
    await clock.advance(3)
    lifecycle.drain()
    assert lifecycle.work_until == 5 + DRAIN_WORK_SECONDS


async def test_a_drain_waits_for_tracked_work_and_no_longer() -> None:
    clock = ManualClock()
    lifecycle = Lifecycle(clock)
    work = asyncio.create_task(clock.sleep(5))
    lifecycle.track(work)
    settled = asyncio.create_task(lifecycle.settled(8))
    await clock.advance(4)
    assert not settled.done()
    await clock.advance(1)
    assert await settled is True
    assert lifecycle.in_flight == frozenset()


async def test_a_drain_gives_up_when_its_budget_ends() -> None:
    clock = ManualClock()
    lifecycle = Lifecycle(clock)
    work = asyncio.create_task(clock.sleep(60))
    lifecycle.track(work)
    settled = asyncio.create_task(lifecycle.settled(8))
    await clock.advance(8)
    assert await settled is False
    work.cancel()
    await asyncio.wait({work})
