"""Requests and instances on a clock that is moved; no process is started."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.errors import HoldfastError
from sandbox.cloud_run.fleet import STARTS_AT_ONCE, Limits
from sandbox.cloud_run.pool import NoCapacity, NoInstance, Pool


class FakeInstance:
    def __init__(self, id_: str, clock: ManualClock, seconds: float, failure: str | None) -> None:
        self.id = id_
        self.in_flight = 0
        self.idle_since = 0.0
        self.serving = False
        self.stopped = False
        self._clock = clock
        self._seconds = seconds
        self._failure = failure

    async def start(self) -> None:
        await self._clock.sleep(self._seconds)
        if self._failure is not None:
            raise HoldfastError(self._failure)
        self.serving = True
        self.idle_since = self._clock.monotonic()

    async def stop(self) -> None:
        self.serving = False
        self.stopped = True


class Maker:
    """Makes instances that start in `seconds`, or fail for as long as `failure` is set."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.made: list[FakeInstance] = []
        self.seconds = 1.0
        self.failure: str | None = None
        self._numbers = itertools.count(1)

    async def make(self) -> FakeInstance:
        self.made.append(FakeInstance(str(next(self._numbers)), self.clock, self.seconds, self.failure))
        return self.made[-1]


class Setting:
    def __init__(self, *, minimum: int = 0, maximum: int = 2, concurrency: int = 1, idle_after: float = 100) -> None:
        self.clock = ManualClock()
        self.maker = Maker(self.clock)
        limits = Limits(minimum=minimum, maximum=maximum, concurrency=concurrency, idle_after=idle_after)
        self.pool: Pool[FakeInstance] = Pool("api-00001", limits, self.maker.make, self.clock)
        self._tasks: list[asyncio.Task[FakeInstance]] = []

    def ask(self) -> asyncio.Task[FakeInstance]:
        self._tasks.append(asyncio.create_task(self.pool.acquire()))
        return self._tasks[-1]

    async def running(self, count: int) -> list[FakeInstance]:
        """That many instances, each with one request."""
        asked = [self.ask() for _ in range(count)]
        await self.clock.advance(count * self.maker.seconds)
        return [await one for one in asked]

    async def end(self) -> None:
        await self.pool.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def it() -> AsyncIterator[Setting]:
    setting = Setting()
    await setting.pool.fleet.start()
    yield setting
    await setting.end()


async def test_the_first_request_starts_an_instance_and_gets_it(it: Setting) -> None:
    (instance,) = await it.running(1)
    assert (instance.in_flight, len(it.maker.made)) == (1, 1)


async def test_a_free_instance_is_used_before_another_one_is_started(it: Setting) -> None:
    (instance,) = await it.running(1)
    it.pool.release(instance)
    assert await it.pool.acquire() is instance
    assert len(it.maker.made) == 1


async def test_requests_wait_in_order_when_every_instance_is_busy(it: Setting) -> None:
    busy = await it.running(2)
    first, second = it.ask(), it.ask()
    await it.clock.advance(1)
    assert not first.done()
    it.pool.release(busy[0])
    await it.clock.advance(0)
    assert first.done()
    assert not second.done()
    it.pool.release(busy[1])
    assert await second is busy[1]


async def test_a_request_that_waited_ten_seconds_is_sent_away_and_leaves_no_place_taken(it: Setting) -> None:
    busy = await it.running(2)
    late = it.ask()
    await it.clock.advance(9.9)
    assert not late.done()
    await it.clock.advance(0.2)
    with pytest.raises(NoCapacity, match="free within 10 s"):
        await late
    it.pool.release(busy[0])
    assert await it.pool.acquire() is busy[0]


async def test_slow_starts_make_the_wait_longer(it: Setting) -> None:
    it.maker.seconds = 8
    (instance,) = await it.running(1)
    assert it.pool.longest_wait == 28
    assert instance.serving


async def test_a_request_that_is_given_up_hands_its_instance_on(it: Setting) -> None:
    busy = await it.running(2)
    given_up, next_ = it.ask(), it.ask()
    await it.clock.advance(0)
    it.pool.release(busy[0])
    given_up.cancel()
    await it.clock.advance(0)
    assert await next_ is busy[0]
    assert busy[0].in_flight == 1


async def test_no_more_instances_start_at_once_than_the_machine_can_use() -> None:
    it = Setting(maximum=50)
    waiting = [it.ask() for _ in range(40)]
    await it.clock.advance(0.5)
    assert len(it.maker.made) == STARTS_AT_ONCE
    await it.clock.advance(0.6)
    assert len(it.maker.made) == 2 * STARTS_AT_ONCE, "waiting requests start the next ones"
    assert sum(one.done() for one in waiting) == STARTS_AT_ONCE
    await it.end()


async def test_concurrency_counts_before_another_instance_is_started() -> None:
    it = Setting(concurrency=3)
    asked = [it.ask() for _ in range(3)]
    await it.clock.advance(1)
    assert {(await one).id for one in asked} == {"1"}
    await it.end()


async def test_requests_are_spread_over_the_instances() -> None:
    it = Setting(minimum=2, concurrency=2)
    await it.pool.fleet.start()
    await it.clock.advance(1)
    assert {(await it.pool.acquire()).id for _ in range(2)} == {"1", "2"}
    await it.end()


async def test_a_failed_start_refuses_whoever_waits_with_the_reason_and_the_next_request_tries_again(
    it: Setting,
) -> None:
    it.maker.failure = "missing_variable: API_BASE_URL"
    waiting = it.ask()
    await it.clock.advance(1)
    with pytest.raises(NoInstance, match="missing_variable: API_BASE_URL"):
        await waiting
    assert it.pool.fleet.failure == "missing_variable: API_BASE_URL"
    it.maker.failure = None
    await it.running(1)
    assert it.pool.fleet.failure is None


async def test_an_instance_goes_after_its_idle_time_and_not_before(it: Setting) -> None:
    (instance,) = await it.running(1)
    it.pool.release(instance)
    await it.clock.advance(99)
    assert it.pool.fleet.members == [instance]
    await it.clock.advance(1)
    assert it.pool.fleet.members == []
    assert instance.stopped


async def test_idle_time_counts_from_the_end_of_the_last_request(it: Setting) -> None:
    (instance,) = await it.running(1)
    it.pool.release(instance)
    await it.clock.advance(99)
    taken = await it.pool.acquire()
    await it.clock.advance(500)
    it.pool.release(taken)
    await it.clock.advance(99)
    assert it.pool.fleet.members == [instance]
    await it.clock.advance(1)
    assert it.pool.fleet.members == []


async def test_the_minimum_is_kept_without_requests_and_replaced_when_one_goes() -> None:
    it = Setting(minimum=1)
    await it.pool.fleet.start()
    await it.clock.advance(500)
    (instance,) = it.pool.fleet.members
    it.pool.fleet.gone(instance)
    await it.clock.advance(1)
    (replaced,) = it.pool.fleet.members
    assert replaced is not instance
    assert instance.stopped, "what is left of a gone instance is cleaned up"
    await it.end()


async def test_a_minimum_that_fails_to_start_is_tried_again_ever_more_slowly() -> None:
    it = Setting(minimum=1)
    it.maker.seconds, it.maker.failure = 0, "broken"
    await it.pool.fleet.start()
    for elapsed, tries in ((0, 1), (1.9, 1), (2, 2), (5.9, 2), (6, 3), (14, 4)):
        await it.clock.advance(elapsed - it.clock.monotonic())
        assert len(it.maker.made) == tries, f"at {elapsed} s"
    await it.clock.advance(3600)
    assert len(it.maker.made) < 70
    await it.end()


async def test_an_instance_that_is_not_serving_gets_no_request_until_it_serves_again(it: Setting) -> None:
    first, second = await it.running(2)
    it.pool.release(first)
    it.pool.release(second)
    first.serving = second.serving = False
    waiting = it.ask()
    await it.clock.advance(1)
    assert not waiting.done()
    second.serving = True
    it.pool.refresh()
    assert await waiting is second


async def test_a_gone_instance_makes_room_for_the_requests_that_wait(it: Setting) -> None:
    busy = await it.running(2)
    waiting = it.ask()
    it.pool.fleet.gone(busy[0])
    await it.clock.advance(1)
    assert (await waiting).id == "3"


async def test_a_drain_waits_for_requests_in_flight_and_takes_no_more(it: Setting) -> None:
    (busy,) = await it.running(1)
    drain = asyncio.create_task(it.pool.drain(600))
    await it.clock.advance(599)
    with pytest.raises(NoInstance):
        await it.pool.acquire()
    assert not busy.stopped
    it.pool.release(busy)
    await drain
    assert busy.stopped


async def test_a_drain_ends_in_time_even_so(it: Setting) -> None:
    (busy,) = await it.running(1)
    drain = asyncio.create_task(it.pool.drain(600))
    await it.clock.advance(600)
    await drain
    assert busy.stopped


async def test_a_stop_ends_starting_and_running_instances_and_refuses_who_waits(it: Setting) -> None:
    await it.running(1)
    waiting = it.ask()
    await it.clock.advance(0.5)
    await it.pool.stop()
    with pytest.raises(NoInstance, match="was stopped"):
        await waiting
    assert it.pool.fleet.members == []
    assert it.maker.made[0].stopped


async def test_a_deployment_proves_an_instance_and_tells_why_it_did_not_become_ready(it: Setting) -> None:
    it.maker.failure = "no"
    proof = asyncio.create_task(it.pool.fleet.prove())
    await it.clock.advance(1)
    assert await proof == "no"
