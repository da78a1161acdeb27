"""Waiting for a live owner."""

from __future__ import annotations

import asyncio

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.outcomes import Outcome
from runtime.ports.documents import Delete
from runtime.worker.claim_record import ClaimState
from runtime.worker.guard import Guard
from tests.support.claims import ClaimsBench, ClaimsProcess
from tests.support.faulty_documents import Fault


def park(process: ClaimsProcess, within: float = 570) -> asyncio.Task[Guard | Outcome]:
    return asyncio.create_task(process.acquire(within=within))


def code(answer: Guard | Outcome) -> str:
    assert isinstance(answer, Outcome), "expected an answer, got the claim"
    return answer.code


async def test_a_live_owner_is_waited_for_and_then_left_alone(bench: ClaimsBench, clock: ManualClock) -> None:
    process = bench.process("b")
    async with await bench.process("a").own() as guard:
        parked = park(process)
        await clock.advance(179)
        assert not parked.done()
        assert process.sample("parked_deliveries") == 1
        await clock.advance(2)
        assert code(await parked) == "owner_in_flight"
        assert (process.sample("parked_deliveries"), process.sample("claim_waits_total")) == (0, 1)
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_the_park_ends_with_the_delivery_where_that_is_earlier(bench: ClaimsBench, clock: ManualClock) -> None:
    async with await bench.process("a").own() as guard:
        parked = park(bench.process("b"), within=40)
        await clock.advance(40)
        assert code(await parked) == "owner_in_flight"
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_a_wall_clock_set_back_does_not_lengthen_the_park(bench: ClaimsBench, clock: ManualClock) -> None:
    """BR-36"""
    async with await bench.process("a").own() as guard:
        parked = park(bench.process("b"))
        await clock.advance(10)
        clock.skew(-3600)
        await clock.advance(171)
        assert code(await parked) == "owner_in_flight"
        await guard.settle(ClaimState.COMPLETED, "", within=8)


async def test_an_owner_elsewhere_that_completes_is_noticed_within_a_poll(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    """BR-52"""
    async with await bench.process("a").own() as guard:
        parked = [park(bench.process("b")) for _ in range(10)]
        await clock.advance(20)
        await guard.settle(ClaimState.COMPLETED, "", within=8)
        await clock.advance(15)
        assert {code(await one) for one in parked} == {"duplicate_settled"}


async def test_an_owner_in_this_process_that_completes_is_noticed_at_once(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    process = bench.process()
    async with await process.own() as guard:
        parked = [park(process) for _ in range(10)]
        await clock.advance(3)
        await guard.settle(ClaimState.COMPLETED, "", within=8)
        await clock.advance(0)
        assert {code(await one) for one in parked} == {"duplicate_settled"}


async def test_one_of_many_takes_what_an_owner_releases(bench: ClaimsBench, clock: ManualClock) -> None:
    """BR-52"""
    process = bench.process()
    async with await process.own() as guard:
        parked = [park(process) for _ in range(10)]
        await clock.advance(3)
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
        await clock.advance(0)
    done = [one for one in parked if one.done()]
    assert len(done) == 1, "the others go on waiting"
    assert process.sample("parked_deliveries") == 9
    winner = done[0].result()
    assert isinstance(winner, Guard)
    async with winner:
        await winner.settle(ClaimState.COMPLETED, "", within=8)
        await clock.advance(0)
    assert {code(await one) for one in parked if one is not done[0]} == {"duplicate_settled"}


async def test_an_owner_that_dies_is_replaced_when_it_is_stale_and_not_before(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    await bench.process("a").own()
    await clock.advance(50)
    parked = park(bench.process("b"))
    await clock.advance(129)
    assert not parked.done()
    await clock.advance(2)
    taken = await parked
    assert isinstance(taken, Guard)
    assert taken.record.attempts == 2


@pytest.mark.parametrize(("waited", "code_"), [(100, "taken"), (121, "not_enough_time")])
async def test_after_parking_only_what_leaves_time_for_the_work_is_taken(
    bench: ClaimsBench, clock: ManualClock, waited: int, code_: str
) -> None:
    """The work needs 240 + 30 s of the delivery's 390."""
    process = bench.process()
    async with await process.own() as guard:
        parked = park(process, within=390)
        await clock.advance(waited)
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
        await clock.advance(0)
    answer = await parked
    assert ("taken" if isinstance(answer, Guard) else answer.code) == code_
    assert await bench.field("attempts") == (2 if code_ == "taken" else 1), "what is not taken is not counted"


async def test_with_the_default_times_nothing_that_has_waited_takes_over(clock: ManualClock) -> None:
    """BR-52: 540 s of a run and 30 s of its settlement are all of a delivery's 570."""
    bench = ClaimsBench(clock, run_timeout=540)
    process = bench.process()
    async with await process.own() as guard:
        parked = park(process)
        await clock.advance(1)
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
        await clock.advance(0)
    assert code(await parked) == "not_enough_time"
    assert (await bench.field("state"), await bench.field("attempts")) == ("released", 1)
    assert isinstance(await bench.process("b").acquire(), Guard), "the next delivery takes it"


async def test_a_claim_that_vanishes_while_parked_is_created(bench: ClaimsBench, clock: ManualClock) -> None:
    await bench.process("a").own()
    parked = park(bench.process("b"))
    await clock.advance(1)
    document = await bench.document()
    assert document is not None
    await bench.memory.commit([Delete(bench.key(), document.version)])
    await clock.advance(15)
    taken = await parked
    assert isinstance(taken, Guard)
    assert taken.record.attempts == 1


async def test_a_drain_ends_the_park_at_once(bench: ClaimsBench, clock: ManualClock) -> None:
    process = bench.process("b")
    await bench.process("a").own()
    parked = park(process)
    await clock.advance(1)
    process.lifecycle.drain()
    await clock.advance(0)
    assert code(await parked) == "worker_shutdown"


async def test_a_store_that_fails_while_parked_ends_the_park(bench: ClaimsBench, clock: ManualClock) -> None:
    await bench.process("a").own()
    parked = park(bench.process("b"))
    await clock.advance(1)
    bench.store.choose = lambda _number, _kind, _writes: Fault.DOWN
    await clock.advance(15)
    assert code(await parked) == "claim_store_unavailable"


async def test_a_parked_delivery_looks_at_most_once_a_second_and_at_least_every_fifteen(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    async with await bench.process("a").own() as guard:
        parked = park(bench.process("b"), within=100)
        await clock.advance(100)
        await parked
        await guard.settle(ClaimState.COMPLETED, "", within=8)
    reads = bench.store.calls.count("get")
    assert 7 <= reads <= 10
