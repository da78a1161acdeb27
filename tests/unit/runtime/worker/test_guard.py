"""An owner's life: heartbeats, loss, settlement, and what a dropped guard leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import Delete, Replace, Write
from runtime.worker.claim_record import ClaimState
from runtime.worker.guard import Guard, Settlement
from tests.support.claims import ClaimsBench
from tests.support.faulty_documents import Choose, Fault


def between(clock: ManualClock, start: float, end: float, fault: Fault) -> Choose:
    """The fault for every write from one moment to another."""

    def choose(_number: int, kind: str, _writes: Sequence[Write]) -> Fault | None:
        return fault if kind == "commit" and start <= clock.monotonic() < end else None

    return choose


async def test_a_heartbeat_keeps_others_away_for_as_long_as_the_work_takes(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    async with await bench.process().own() as guard:
        await clock.advance(1000)
        assert not guard.lost.is_set()
        assert await bench.process("b").refused() == "owner_in_flight"
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_the_cadence_is_that_of_the_settings(clock: ManualClock) -> None:
    """BR-33"""
    bench = ClaimsBench(clock, heartbeat=5, stale_after=30)
    async with await bench.process().own() as guard:
        await clock.advance(60)
        assert len(bench.store.calls) - 1 == 12
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_every_write_moves_the_time_at_which_the_claim_may_go(bench: ClaimsBench, clock: ManualClock) -> None:
    async with await bench.process().own() as guard:
        before = await bench.field("expires_at_ts")
        await clock.advance(30)
        beaten = await bench.field("expires_at_ts")
        await clock.advance(7)
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
        settled = await bench.field("expires_at_ts")
    assert str(before) < str(beaten) < str(settled)


async def test_two_failed_heartbeats_are_no_loss(bench: ClaimsBench, clock: ManualClock) -> None:
    """BR-43"""
    process = bench.process()
    async with await process.own() as guard:
        bench.store.at(_1=Fault.DOWN, _2=Fault.DOWN)
        await clock.advance(300)
        assert not guard.lost.is_set()
        assert process.sample("heartbeat_failures_total", cause="unknown") == 2
        assert await guard.settle(ClaimState.COMPLETED, "", within=8) is Settlement.DONE


async def test_a_store_that_stays_away_stops_the_work_before_anyone_may_take_it(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    """BR-43"""
    bench.store.choose = between(clock, 1, 1e9, Fault.REQUEST_LOST)
    async with await bench.process().own() as guard:
        await clock.advance(169)
        assert not guard.lost.is_set(), "unknown is not lost"
        await clock.advance(1)
        assert guard.lost.is_set()
        assert clock.monotonic() < 180
        assert await guard.settle(ClaimState.COMPLETED, "", within=8) is Settlement.LOST


async def test_a_heartbeat_whose_answer_was_lost_does_not_cost_the_claim(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    bench.store.at(_1=Fault.ANSWER_LOST)
    async with await bench.process().own() as guard:
        await clock.advance(120)
        assert not guard.lost.is_set()
        assert await guard.settle(ClaimState.COMPLETED, "", within=8) is Settlement.DONE


async def test_an_owner_that_was_replaced_stops_and_writes_nothing(bench: ClaimsBench, clock: ManualClock) -> None:
    """BR-34: the first owner is frozen, the second takes over, the first wakes up."""
    frozen = await bench.process("a").own()
    await clock.advance(180)
    async with await bench.process("b").own() as second, frozen:
        await clock.advance(1)
        assert frozen.lost.is_set(), "its claim was too old to go on, whatever the store says"
        assert await frozen.settle(ClaimState.COMPLETED, "", within=8) is Settlement.LOST
        assert await bench.field("token") == second.record.token
        await second.settle(ClaimState.COMPLETED, "", within=8)


async def test_a_replaced_owner_learns_of_it_from_its_next_heartbeat(bench: ClaimsBench, clock: ManualClock) -> None:
    process = bench.process()
    async with await process.own() as guard:
        await _taken_by_another(bench)
        await clock.advance(30)
        assert guard.lost.is_set()
        assert process.sample("heartbeat_failures_total", cause="lost") == 1
    assert await bench.field("token") == "another", "a lost claim is not released"


async def test_a_replaced_owner_learns_of_it_from_its_settlement(bench: ClaimsBench) -> None:
    async with await bench.process().own() as guard:
        await _taken_by_another(bench)
        assert await guard.settle(ClaimState.COMPLETED, "", within=8) is Settlement.LOST
    assert await bench.field("state") == "in_progress"


async def test_a_claim_that_was_deleted_is_lost(bench: ClaimsBench, clock: ManualClock) -> None:
    async with await bench.process().own() as guard:
        document = await bench.document()
        assert document is not None
        await bench.memory.commit([Delete(bench.key(), document.version)])
        await clock.advance(30)
        assert guard.lost.is_set()
    assert await bench.document() is None


async def _taken_by_another(bench: ClaimsBench) -> None:
    document = await bench.document()
    assert document is not None
    await bench.memory.commit([Replace(bench.key(), {**document.data, "token": "another"}, document.version)])


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_settlement_is_tried_until_it_is_clear(bench: ClaimsBench, clock: ManualClock, fault: Fault) -> None:
    bench.store.at(_1=fault)
    async with await bench.process().own() as guard:
        settling = asyncio.create_task(guard.settle(ClaimState.COMPLETED, "", within=8))
        await clock.advance(1)
        assert await settling is Settlement.DONE
    assert await bench.field("state") == "completed"


async def test_a_settlement_that_was_written_is_not_written_again(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.at(_1=Fault.ANSWER_LOST)
    async with await bench.process().own() as guard:
        settling = asyncio.create_task(guard.settle(ClaimState.COMPLETED, "", within=8))
        await clock.advance(1)
        await settling
    assert bench.store.calls == ["commit", "commit", "commit", "get"]


async def test_a_settlement_ends_with_its_budget(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.choose = between(clock, 0.5, 300, Fault.DOWN)
    async with await bench.process().own() as guard:
        await clock.advance(1)
        settling = asyncio.create_task(guard.settle(ClaimState.COMPLETED, "", within=8))
        await clock.advance(8)
        assert await settling is Settlement.UNCONFIRMED
    assert await bench.field("state") == "in_progress"
    await clock.advance(300)
    assert await bench.field("state") == "completed", "it is written once the store is back"


async def test_a_dropped_guard_releases_its_claim(bench: ClaimsBench) -> None:
    with pytest.raises(KeyError):
        async with await bench.process().own():
            raise KeyError
    assert (await bench.field("state"), await bench.field("outcome_code")) == ("released", "guard_dropped")
    assert await bench.field("excused") == 0, "what ended it is not known, so it counts"


async def test_a_dropped_guard_never_raises(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.choose = between(clock, 0, 1e9, Fault.DOWN)
    bench.store.at(_1=Fault.MISCONFIGURED)
    with pytest.raises(KeyError):
        async with await bench.process().own():
            raise KeyError


async def test_a_settled_guard_does_nothing_on_the_way_out(bench: ClaimsBench) -> None:
    await _settle_completed(await bench.process().own())
    assert bench.store.calls == ["commit", "commit"]
    assert await bench.field("state") == "completed"


async def test_a_release_survives_a_second_cancellation(bench: ClaimsBench, clock: ManualClock) -> None:
    process = bench.process()
    guard = await process.own()

    async def hold() -> None:
        async with guard:
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await clock.advance(0)
    reached = asyncio.Event()
    bench.store.before[1] = reached.wait
    holding.cancel()
    await clock.advance(0)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    reached.set()
    await asyncio.wait(process.lifecycle.in_flight)
    assert await bench.field("state") == "released"


@pytest.mark.parametrize("fault", [Fault.CANCELLED_BEFORE, Fault.CANCELLED_AFTER])
async def test_an_interrupted_settlement_keeps_its_word(bench: ClaimsBench, fault: Fault) -> None:
    """What was done must not be released as undone."""
    bench.store.at(_1=fault)
    with pytest.raises(asyncio.CancelledError):
        await _settle_completed(await bench.process().own())
    assert await bench.field("state") == "completed"


async def _settle_completed(guard: Guard) -> None:
    async with guard:
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_an_abandoned_claim_is_left_to_its_age(bench: ClaimsBench, clock: ManualClock) -> None:
    """BR-40: something may still work in its name."""
    async with await bench.process().own() as guard:
        await guard.abandon()
    assert await bench.field("state") == "in_progress"
    await clock.advance(180)
    assert isinstance(await bench.process("b").acquire(), Guard)


async def test_a_store_that_hangs_stops_the_work_in_time(bench: ClaimsBench, clock: ManualClock) -> None:
    never = asyncio.Event()
    bench.store.before = dict.fromkeys(range(1, 100), never.wait)
    async with await bench.process().own() as guard:
        await clock.advance(170)
        assert guard.lost.is_set()


async def test_a_failed_heartbeat_is_tried_again_soon(clock: ManualClock) -> None:
    bench = ClaimsBench(clock, heartbeat=60)
    bench.store.at(_1=Fault.DOWN)
    async with await bench.process().own() as guard:
        await clock.advance(64)
        assert len(bench.store.calls) == 2
        await clock.advance(1)
        assert len(bench.store.calls) == 3
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_a_heartbeat_counts_from_when_it_was_sent(bench: ClaimsBench, clock: ManualClock) -> None:
    """The store may have judged it at any moment since."""

    async def slow() -> None:
        await clock.sleep(5)

    bench.store.before[1] = slow
    bench.store.choose = between(clock, 36, 1e9, Fault.DOWN)
    async with await bench.process().own() as guard:
        await clock.advance(30 + 169)
        assert not guard.lost.is_set()
        await clock.advance(1)
        assert guard.lost.is_set()


@pytest.mark.parametrize("fault", [Fault.CANCELLED_BEFORE, Fault.CANCELLED_AFTER])
async def test_a_heartbeat_that_dies_takes_the_work_with_it(
    bench: ClaimsBench, clock: ManualClock, fault: Fault
) -> None:
    bench.store.at(_1=fault)
    async with await bench.process().own() as guard:
        await clock.advance(30)
        assert guard.lost.is_set()


async def test_a_claim_that_may_be_anothers_is_not_released(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.choose = between(clock, 1, 175, Fault.DOWN)
    async with await bench.process().own() as guard:
        await clock.advance(176)
        assert guard.lost.is_set()
    assert await bench.field("state") == "in_progress"
