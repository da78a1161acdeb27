"""The work of one delivery, what interrupts it, and many deliveries of one message."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import Replace
from runtime.worker.claim_record import ClaimState
from runtime.worker.workload import Ended
from tests.support.deliveries import DeliveryBench, RaisingBody, envelope
from tests.support.faulty_documents import Fault


async def until_stopped(stop: asyncio.Event) -> None:
    await stop.wait()


async def test_a_good_message_is_worked_settled_and_acknowledged(deliveries: DeliveryBench) -> None:
    worker = deliveries.worker()
    assert await worker.deliver() == "completed"
    assert deliveries.workload.runs == 1
    assert (await deliveries.field("state"), await deliveries.field("outcome_code")) == ("completed", "")
    assert worker.sample("deliveries_total", outcome="completed") == 1


# --- what the work does ---------------------------------------------------------------------------------------------


async def test_a_retryable_end_releases_the_claim_with_its_reason(deliveries: DeliveryBench) -> None:
    async def busy(_stop: asyncio.Event) -> Ended:
        return Ended("run_lease_busy", "held by another")

    deliveries.workload.run = busy
    assert await deliveries.worker().deliver() == "run_lease_busy"
    assert (await deliveries.field("state"), await deliveries.field("outcome_code")) == ("released", "run_lease_busy")
    assert (await deliveries.field("attempts"), await deliveries.field("excused")) == (1, 1)


@pytest.mark.parametrize("raised", [KeyError("x"), SystemExit(0), asyncio.CancelledError(), OSError("x")])
async def test_work_that_raises_is_a_retry_that_counts(deliveries: DeliveryBench, raised: BaseException) -> None:
    """BR-11"""

    async def broken(_stop: asyncio.Event) -> Ended:
        raise raised

    deliveries.workload.run = broken
    assert await deliveries.worker().deliver() == "execution_failed"
    assert (await deliveries.field("state"), await deliveries.field("excused")) == ("released", 0)


@pytest.mark.parametrize("ended", [None, Ended("no such code")])
async def test_work_that_ends_in_nothing_known_is_a_retry(deliveries: DeliveryBench, ended: Ended | None) -> None:
    """BR-11"""

    async def strange(_stop: asyncio.Event) -> Ended | None:
        return ended

    deliveries.workload.run = strange
    assert await deliveries.worker().deliver() == "execution_failed"


async def test_a_fault_of_our_own_is_a_retry(deliveries: DeliveryBench, logs: list[MutableMapping[str, Any]]) -> None:
    """BR-11"""
    broken = RaisingBody(ZeroDivisionError())
    assert await deliveries.worker().deliver(body=lambda: broken) == "unhandled_error"
    assert "unhandled_error" in {line["event"] for line in logs}


async def test_work_is_stopped_at_the_deadline_of_its_delivery(deliveries: DeliveryBench, clock: ManualClock) -> None:
    deliveries.workload.run = until_stopped
    delivery = deliveries.worker().start()
    await clock.advance(569)
    assert not delivery.done()
    await clock.advance(1)
    assert await delivery == "processing_timeout"
    assert (await deliveries.field("state"), await deliveries.field("excused")) == ("released", 0)


async def test_parking_and_work_share_one_deadline(deliveries: DeliveryBench, clock: ManualClock) -> None:
    owner = deliveries.process()
    async with await owner.own() as guard:
        deliveries.workload.run = until_stopped
        delivery = deliveries.worker().start()
        await clock.advance(100)
        await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
    await clock.advance(469)
    assert not delivery.done()
    await clock.advance(1)
    assert await delivery == "processing_timeout"


async def test_work_that_ignores_the_stop_is_cancelled(deliveries: DeliveryBench, clock: ManualClock) -> None:
    async def deaf(_stop: asyncio.Event) -> Ended:
        await asyncio.Event().wait()
        return Ended("completed")

    deliveries.workload.run = deaf
    delivery = deliveries.worker().start()
    await clock.advance(575)
    assert await delivery == "processing_timeout"
    assert await deliveries.field("state") == "released"


async def test_a_claim_is_never_released_under_live_work(deliveries: DeliveryBench, clock: ManualClock) -> None:
    """BR-40: what cannot be stopped keeps its claim until the heartbeat is stale."""
    freed = asyncio.Event()

    async def unstoppable(_stop: asyncio.Event) -> Ended:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        return Ended("completed")

    deliveries.workload.run = unstoppable
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(576)
    assert await delivery == "processing_timeout"
    assert await deliveries.field("state") == "in_progress"
    assert worker.lifecycle.in_flight, "a drain waits for it"
    freed.set()
    await worker.lifecycle.settled(1)


async def test_a_drain_stops_the_work_and_excuses_it(deliveries: DeliveryBench, clock: ManualClock) -> None:
    deliveries.workload.run = until_stopped
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(10)
    worker.lifecycle.drain()
    await clock.advance(0)
    assert await delivery == "worker_shutdown"
    assert (await deliveries.field("state"), await deliveries.field("excused")) == ("released", 1)


async def test_a_drain_lets_work_that_is_done_be_done(deliveries: DeliveryBench, clock: ManualClock) -> None:
    async def last_words(stop: asyncio.Event) -> Ended:
        await stop.wait()
        return Ended("completed")

    deliveries.workload.run = last_words
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(10)
    worker.lifecycle.drain()
    await clock.advance(0)
    assert await delivery == "completed"
    assert await deliveries.field("state") == "completed"


async def test_a_lost_claim_stops_the_work_and_settles_nothing(deliveries: DeliveryBench, clock: ManualClock) -> None:
    """BR-34"""
    deliveries.workload.run = until_stopped
    delivery = deliveries.worker().start()
    await clock.advance(1)
    document = await deliveries.document()
    assert document is not None
    await deliveries.memory.commit([Replace(deliveries.key(), {**document.data, "token": "x"}, document.version)])
    await clock.advance(30)
    assert await delivery == "claim_lost"
    assert (await deliveries.field("state"), await deliveries.field("token")) == ("in_progress", "x")


async def test_completed_work_that_cannot_be_settled_is_still_acknowledged(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.store.choose = lambda number, _kind, _writes: Fault.DOWN if number else None
    delivery = deliveries.worker().start()
    await clock.advance(8)
    assert await delivery == "completed"
    assert await deliveries.field("state") == "in_progress"
    deliveries.store.choose = lambda _number, _kind, _writes: None
    await clock.advance(8)
    assert await deliveries.field("state") == "completed", "no further delivery does it again"


async def test_a_cancelled_delivery_stops_its_work_and_releases(deliveries: DeliveryBench, clock: ManualClock) -> None:
    deliveries.workload.run = until_stopped
    delivery = deliveries.worker().start()
    await clock.advance(1)
    delivery.cancel()
    await clock.advance(1)
    assert delivery.cancelled()
    assert deliveries.workload.active == 0
    assert (await deliveries.field("state"), await deliveries.field("outcome_code")) == ("released", "guard_dropped")


# --- many deliveries of one message ---------------------------------------------------------------------------------


async def test_concurrent_deliveries_do_the_work_once_and_all_acknowledge(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    async def slow(_stop: asyncio.Event) -> Ended:
        await clock.sleep(100)
        return Ended("completed")

    deliveries.workload.run = slow
    workers = [deliveries.worker(), deliveries.worker()]
    all_of_them = [workers[number % 2].start(envelope(attempt=number + 1)) for number in range(8)]
    await clock.advance(99)
    assert not any(one.done() for one in all_of_them), "nothing is acknowledged while the owner works"
    await clock.advance(20)
    codes = sorted([await one for one in all_of_them])
    assert codes == ["completed"] + ["duplicate_settled"] * 7
    assert deliveries.workload.runs == 1


async def test_a_job_longer_than_the_ack_deadline_is_worked_once(clock: ManualClock) -> None:
    """BR-46: redelivered every 600 s while it runs; each redelivery parks, the last one finds it done."""
    deliveries = DeliveryBench(clock, request_timeout=3600, process_timeout=3540, run_timeout=3500)

    async def long(_stop: asyncio.Event) -> Ended:
        await clock.sleep(3000)
        return Ended("completed")

    deliveries.workload.run = long
    first = deliveries.worker().start()
    codes = []
    for _ in range(4):
        await clock.advance(600)
        codes.append(await _redelivered(deliveries, clock))
    await clock.advance(600)
    codes.append(await _redelivered(deliveries, clock))
    assert codes == ["owner_in_flight"] * 3 + ["duplicate_settled"] * 2
    assert await first == "completed"
    assert deliveries.workload.runs == 1


async def _redelivered(deliveries: DeliveryBench, clock: ManualClock) -> str:
    again = deliveries.worker().start()
    await clock.advance(181)
    return await again


async def test_deliveries_of_different_messages_do_not_meet(deliveries: DeliveryBench) -> None:
    worker = deliveries.worker()
    answers = await asyncio.gather(*(worker.deliver(envelope(message_id=str(number))) for number in range(20)))
    assert set(answers) == {"completed"}
    assert deliveries.workload.runs == 20


async def test_work_that_completes_under_a_lost_claim_is_not_acknowledged(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    async def too_late(stop: asyncio.Event) -> Ended:
        await stop.wait()
        return Ended("completed")

    deliveries.workload.run = too_late
    delivery = deliveries.worker().start()
    await clock.advance(1)
    document = await deliveries.document()
    assert document is not None
    await deliveries.memory.commit([Replace(deliveries.key(), {**document.data, "token": "x"}, document.version)])
    await clock.advance(30)
    assert await delivery == "claim_lost"
