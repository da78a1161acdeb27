"""A lease by itself: what is left of it is counted from before it was asked for."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runtime.execution.callback_messages import CallbackUnavailable, LeaseNotCurrent
from runtime.execution.lease import Parking, RunLease, Taking
from tests.support.run_api import LEASE, RunApi, accepted


def lease_of(api: RunApi, duration: timedelta = LEASE) -> RunLease:
    return RunLease(api, "r1.1", api.bench.clock, duration)


def parking(until: float = 180, latest_start: float = 1000) -> Parking:
    return Parking(until=until, latest_start=latest_start)


async def test_a_lease_says_whose_attempt_it_is_and_where_its_events_go_on() -> None:
    api = await accepted()
    await api.bench.lease("before")
    await api.bench.events("before", 0, 1, 2)
    await api.bench.lease("before", lease_duration_ms=0)
    lease = lease_of(api)
    take = await lease.take(parking(), asyncio.Event())
    assert (take.how, lease.attempt, lease.next_sequence) == (Taking.TAKEN, 2, 3)
    assert (lease.valid_until(), lease.usable_until()) == (150, 100)


@pytest.mark.parametrize(("seconds", "renewal"), [(150, 50), (15, 5), (3600, 60), (180, 60)])
async def test_it_is_renewed_three_times_before_it_ends_and_at_least_every_minute(seconds: int, renewal: float) -> None:
    assert lease_of(await accepted(), timedelta(seconds=seconds)).renewal == renewal


async def test_a_slow_answer_shortens_what_is_left() -> None:
    api = await accepted()
    api.delay = 40
    lease = lease_of(api)
    await api.bench.within(lease.take(parking(), asyncio.Event()))
    assert api.bench.clock.monotonic() == 40
    assert lease.valid_until() == 150, "counted from the sending; the store's lease ends at 190"


async def test_a_lease_that_was_granted_and_whose_answer_was_lost_is_had_by_asking_again() -> None:
    api = await accepted()
    lost = iter([CallbackUnavailable("lost")])
    api.after = lambda _body: next(lost, None)
    lease = lease_of(api)
    with pytest.raises(CallbackUnavailable):
        await lease.take(parking(), asyncio.Event())
    take = await lease.take(parking(), asyncio.Event())
    assert (take.how, lease.attempt) == (Taking.TAKEN, 1), "the same token is the same attempt"


async def test_every_attempt_has_a_token_of_its_own() -> None:
    api = await accepted()
    assert len({lease_of(api).token for _ in range(100)}) == 100


async def test_keeping_ends_when_another_one_has_it() -> None:
    api = await accepted()
    lease = lease_of(api)
    await lease.take(parking(), asyncio.Event())
    keeper = asyncio.create_task(lease.keep())
    await api.bench.clock.advance(60)
    assert lease.valid_until() == 200
    await api.bench.lease(lease.token, lease_duration_ms=0)
    await api.bench.lease("other")
    await api.bench.clock.advance(50)
    assert isinstance(await keeper, LeaseNotCurrent)


async def test_a_shorter_lease_than_asked_for_is_counted_as_it_was_granted() -> None:
    api = await accepted()
    lease = lease_of(api, timedelta(seconds=1000))
    await lease.take(parking(), asyncio.Event())
    assert lease.valid_until() == 150


async def test_a_busy_lease_is_asked_for_again_before_it_would_lapse() -> None:
    """The holder may end long before."""
    api = await accepted()
    await api.bench.lease("other")
    task = asyncio.create_task(lease_of(api).take(parking(), asyncio.Event()))
    await api.bench.clock.advance(20)
    await api.bench.progress("other", "completed")
    await api.bench.clock.advance(15)
    assert (await task).how is Taking.ENDED


async def test_giving_it_back_lets_the_next_attempt_in_at_once() -> None:
    api = await accepted()
    lease = lease_of(api)
    await lease.take(parking(), asyncio.Event())
    await lease.release(None, 2)
    take = await lease_of(api).take(parking(), asyncio.Event())
    assert (take.how, api.bench.clock.monotonic()) == (Taking.TAKEN, 0)


async def test_giving_it_back_is_not_tried_for_long() -> None:
    api = await accepted()
    lease = lease_of(api)
    await lease.take(parking(), asyncio.Event())
    api.before = lambda _body: CallbackUnavailable("down")
    await api.bench.within(lease.release(None, 2))
    assert api.bench.clock.monotonic() <= 3
