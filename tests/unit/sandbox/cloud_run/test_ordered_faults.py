from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory.documents import MemoryDocuments
from runtime.ports.documents import Create, Delete, Key, Query, Replace, StoreUnavailable, Version, Write
from sandbox.cloud_run.faults import Action, Fault, FaultOrders, Point
from sandbox.cloud_run.ordered_faults import FaultyDocuments, OrderedFaults, skewed_clock

KEY = Key("runs", "r1")


class Killed(BaseException):
    """In place of a dead process."""


def die() -> None:
    raise Killed


class Setting:
    def __init__(self, *faults: Fault) -> None:
        self.clock = ManualClock()
        self.inner = MemoryDocuments(self.clock)
        self.store = FaultyDocuments(self.inner, OrderedFaults(faults, self.clock, die))


def fault(point: Point, action: Action = Action.ERROR, match: str = "", nth: int = 1, seconds: float = 0) -> Fault:
    return Fault(point=point, action=action, match=match, nth=nth, seconds=seconds)


async def test_a_failure_before_the_store_writes_nothing_and_one_after_it_hides_a_write() -> None:
    for point, written in ((Point.DOCUMENTS_BEFORE, False), (Point.DOCUMENTS_AFTER, True)):
        it = Setting(fault(point))
        with pytest.raises(StoreUnavailable) as error:
            await it.store.commit([Create(KEY, {})])
        assert error.value.unclear, "the caller cannot know, so it must not be told"
        assert (await it.inner.get(KEY) is not None) is written


async def test_only_the_nth_matching_call_is_struck() -> None:
    it = Setting(fault(Point.DOCUMENTS_BEFORE, match="create claims/", nth=2))
    await it.store.commit([Create(KEY, {})])
    await it.store.commit([Create(Key("claims", "1"), {})])
    await it.store.get(Key("claims", "1"))
    with pytest.raises(StoreUnavailable, match="create claims/2"):
        await it.store.commit([Create(Key("claims", "2"), {})])
    await it.store.commit([Create(Key("claims", "3"), {})])


async def test_every_call_is_struck_where_so_ordered() -> None:
    it = Setting(fault(Point.DOCUMENTS_BEFORE, match="query runs", nth=0))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await it.store.query(Query("runs"))


async def test_each_write_of_a_commit_can_be_named() -> None:
    for match in ("create runs/a", "replace runs/b", "delete runs/c"):
        it = Setting(fault(Point.DOCUMENTS_BEFORE, match=match))
        version = Version("1")
        writes: list[Write] = [
            Create(Key("runs", "a"), {}),
            Replace(Key("runs", "b"), {}, version),
            Delete(Key("runs", "c"), version),
        ]
        with pytest.raises(StoreUnavailable, match="ordered fault"):
            await it.store.commit(writes)


async def test_a_kill_ends_the_process_at_its_point() -> None:
    it = Setting(fault(Point.DOCUMENTS_AFTER, Action.KILL, match="create runs"))
    with pytest.raises(Killed):
        await it.store.commit([Create(KEY, {})])
    assert await it.inner.get(KEY) is not None, "it was to die after the write"


async def test_a_delay_holds_the_call_back() -> None:
    it = Setting(fault(Point.DOCUMENTS_BEFORE, Action.DELAY, seconds=30))
    call = asyncio.create_task(it.store.commit([Create(KEY, {})]))
    await it.clock.advance(29)
    assert not call.done()
    await it.clock.advance(1)
    await call


def test_orders_are_taken_once_each_in_order() -> None:
    orders = FaultOrders()
    first, second = fault(Point.HTTP_AFTER), fault(Point.HTTP_BEFORE)
    orders.order("api", [first])
    orders.order("api", [second])
    assert [orders.take("worker"), orders.take("api"), orders.take("api"), orders.take("api")] == [
        (),
        (first,),
        (second,),
        (),
    ]
    orders.order("api", [first])
    orders.clear()
    assert orders.take("api") == ()


def test_an_ordered_skew_moves_the_wall_clock_and_nothing_else() -> None:
    assert skewed_clock([fault(Point.DOCUMENTS_BEFORE)]) is None
    slow = skewed_clock([fault(Point.CLOCK, Action.SKEW, seconds=-300)])
    assert slow is not None
    behind = datetime.now(UTC) - slow.now()
    assert timedelta(seconds=299) < behind < timedelta(seconds=301)


@pytest.mark.parametrize(("point", "action"), [(Point.CLOCK, Action.ERROR), (Point.HTTP_AFTER, Action.SKEW)])
def test_a_clock_is_skewed_and_nothing_else_is(point: Point, action: Action) -> None:
    with pytest.raises(ValueError, match="skewed"):
        fault(point, action)
