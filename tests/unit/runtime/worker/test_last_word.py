"""What a delivery goes on to write once it is answered: no trouble of the store uses up what was never worked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import pytest

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import Create, Replace, Write
from runtime.worker.claim_record import ClaimRecord
from runtime.worker.guard import LAST_WORD_SECONDS
from runtime.worker.workload import Ended
from tests.support.claims import ClaimsBench
from tests.support.deliveries import DeliveryBench, completed
from tests.support.faulty_documents import Choose, Fault

DELIVERIES = 5
"""More than the ceiling of 3."""


def busy(code: str) -> Callable[[asyncio.Event], Awaitable[Ended]]:
    async def run(_stop: asyncio.Event) -> Ended:
        return Ended(code)

    return run


def until(clock: ManualClock, end: float, fault: Fault, *, state: str) -> Choose:
    """The fault for every write of a state until a moment."""

    def choose(_number: int, _kind: str, writes: Sequence[Write]) -> Fault | None:
        wanted = any(isinstance(write, Create | Replace) and write.data.get("state") == state for write in writes)
        return fault if wanted and clock.monotonic() < end else None

    return choose


def answer_lost_then_away(clock: ManualClock, seconds: float, *, known: bool) -> Choose:
    """The claim is taken and nobody knows; nothing more of the store answers for a while."""
    end = clock.monotonic() + seconds
    taken = False

    def choose(_number: int, _kind: str, writes: Sequence[Write]) -> Fault | None:
        nonlocal taken
        if not taken and any(isinstance(write, Replace if known else Create) for write in writes):
            taken = True
            return Fault.ANSWER_LOST
        return Fault.DOWN if taken and clock.monotonic() < end else None

    return choose


async def record(bench: ClaimsBench) -> ClaimRecord:
    document = await bench.document()
    assert document is not None
    return ClaimRecord.read(document.data)


async def test_excused_ends_whose_release_is_late_never_use_up_a_message(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    worker = deliveries.worker()
    for number in range(1, DELIVERIES + 1):
        deliveries.workload.run = busy("run_api_unavailable")
        deliveries.store.choose = until(clock, clock.monotonic() + 60, Fault.DOWN, state="released")
        delivery = worker.start()
        await clock.advance(8)
        assert await delivery == "run_api_unavailable"
        await clock.advance(60)
        claim = await record(deliveries)
        assert (claim.state, claim.attempts, claim.counted) == ("released", number, 0)
    deliveries.workload.run = completed
    assert await worker.deliver() == "completed"
    assert await deliveries.letters() == []


async def test_takes_of_which_nobody_knows_never_use_up_a_message(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    worker = deliveries.worker()
    for number in range(1, DELIVERIES + 1):
        deliveries.store.choose = answer_lost_then_away(clock, 60, known=number > 1)
        delivery = worker.start()
        await clock.advance(8)
        assert await delivery == "claim_store_unavailable"
        assert (await record(deliveries)).state == "in_progress"
        await clock.advance(60)
        claim = await record(deliveries)
        assert (claim.state, claim.attempts, claim.counted) == ("released", number, 0)
    assert deliveries.workload.runs == 0
    assert await worker.deliver() == "completed"
    assert await deliveries.letters() == []


@pytest.mark.parametrize("known", [False, True])
async def test_a_take_that_arrives_after_it_was_given_back_changes_nothing(
    bench: ClaimsBench, clock: ManualClock, *, known: bool
) -> None:
    """The first write may be applied at any later time."""
    if known:
        async with await bench.process().own():
            pass
    late: list[Write] = []

    def choose(_number: int, kind: str, writes: Sequence[Write]) -> Fault | None:
        if kind == "commit" and not late and (not known or isinstance(writes[0], Replace)):
            late.extend(writes)
            return Fault.REQUEST_LOST
        return Fault.DOWN if late and clock.monotonic() < 10 else None

    bench.store.choose = choose
    refused = asyncio.create_task(bench.process().refused())
    await clock.advance(8)
    assert await refused == "claim_store_unavailable"
    await clock.advance(10)
    with pytest.raises(Exception, match="exists" if not known else "version"):
        await bench.memory.commit(late)
    claim = await record(bench)
    assert (claim.state, claim.outcome_code, claim.counted) == ("released", "claim_store_unavailable", int(known))


@pytest.mark.parametrize("fault", [Fault.CANCELLED_BEFORE, Fault.CANCELLED_AFTER])
async def test_a_delivery_that_is_cancelled_while_it_takes_gives_back(
    bench: ClaimsBench, clock: ManualClock, fault: Fault
) -> None:
    bench.store.at(_0=fault)
    with pytest.raises(asyncio.CancelledError):
        await bench.process().acquire()
    await clock.advance(1)
    claim = await record(bench)
    assert (claim.state, claim.attempts, claim.counted) == ("released", 1, 0)


async def test_a_delivery_that_is_cancelled_waits_for_its_release_no_longer_than_five_seconds(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    async def endless(_stop: asyncio.Event) -> Ended:
        await asyncio.Event().wait()
        return Ended("completed")

    deliveries.workload.run = endless
    deliveries.store.choose = until(clock, 30, Fault.DOWN, state="released")
    delivery = deliveries.worker().start()
    await clock.advance(1)
    delivery.cancel()
    await clock.advance(5.1)
    assert delivery.cancelled()
    await clock.advance(30)
    claim = await record(deliveries)
    assert (claim.state, claim.outcome_code, claim.counted) == ("released", "guard_dropped", 1)


async def test_who_waits_in_this_process_hears_of_a_late_release(deliveries: DeliveryBench, clock: ManualClock) -> None:
    deliveries.workload.run = busy("run_lease_busy")
    deliveries.store.choose = until(clock, 30, Fault.DOWN, state="released")
    worker = deliveries.worker()
    first, second = worker.start(), worker.start()
    await clock.advance(8)
    assert (await first, second.done()) == ("run_lease_busy", False)
    deliveries.workload.run = completed
    await clock.advance(30)
    assert await second == "completed"


async def test_a_word_that_is_never_heard_ends_and_says_so(
    deliveries: DeliveryBench, clock: ManualClock, logs: list[MutableMapping[str, Any]]
) -> None:
    deliveries.workload.run = busy("run_lease_busy")
    deliveries.store.choose = until(clock, 1e9, Fault.DOWN, state="released")
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(8)
    assert await delivery == "run_lease_busy"
    assert worker.lifecycle.in_flight, "a drain waits for it"
    await clock.advance(LAST_WORD_SECONDS)
    assert not worker.lifecycle.in_flight
    assert [line["log_level"] for line in logs if line["event"] == "claim_release_failed"] == ["error"]


async def test_a_word_that_comes_too_late_leaves_the_claim_to_its_new_owner(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.workload.run = busy("run_lease_busy")
    deliveries.store.choose = until(clock, 300, Fault.DOWN, state="released")
    delivery = deliveries.worker().start()
    await clock.advance(200)
    assert await delivery == "run_lease_busy"
    async with await deliveries.process("b").own() as guard:
        await clock.advance(110)
        claim = await record(deliveries)
        assert (claim.state, claim.token) == ("in_progress", guard.record.token)
