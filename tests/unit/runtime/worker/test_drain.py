"""A drain has eight seconds for everything, whatever it meets and whenever it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import Create, Replace, Write
from runtime.server import DRAIN_WORK_SECONDS
from runtime.worker.workload import Ended
from tests.support.deliveries import DeliveryBench, envelope
from tests.support.faulty_documents import Fault

LAST = 20
"""The broker's last delivery."""
LONGEST_STEP = 7.0


async def deaf(_stop: asyncio.Event) -> Ended:
    await asyncio.Event().wait()
    return Ended("completed")


async def hopeless(_stop: asyncio.Event) -> Ended:
    return Ended("invalid_execution_request")


async def hang() -> None:
    await asyncio.Event().wait()


def writes_letter(writes: Sequence[Write]) -> bool:
    return any(isinstance(write, Create) and write.key.collection == "dead_letters" for write in writes)


def settles(writes: Sequence[Write]) -> bool:
    return any(isinstance(write, Replace) and write.data["state"] != "in_progress" for write in writes)


@pytest.fixture
def deliveries(clock: ManualClock) -> DeliveryBench:
    return DeliveryBench(clock, broker_attempts=LAST)


@pytest.mark.parametrize("attempt", [None, LAST], ids=["released", "given up"])
async def test_a_drain_is_over_in_eight_seconds_whatever_fails(
    deliveries: DeliveryBench, clock: ManualClock, attempt: int | None
) -> None:
    deliveries.workload.run = deaf
    deliveries.workload.give_up = hang
    worker = deliveries.worker()
    delivery = worker.start(envelope(attempt=attempt))
    await clock.advance(10)
    deliveries.store.choose = lambda _number, _kind, _writes: Fault.DOWN
    worker.lifecycle.drain()
    await clock.advance(DRAIN_WORK_SECONDS - 0.1)
    assert await delivery == ("dead_letter_unrecorded" if attempt else "worker_shutdown")
    assert not worker.lifecycle.in_flight


@pytest.mark.parametrize("into", [0.0, 0.1, LONGEST_STEP - 0.1])
@pytest.mark.parametrize(
    ("step", "answer", "state"),
    [
        ("letter", "dead_letter_unrecorded", "released"),
        ("run", "invalid_execution_request", "dead_lettered"),
        ("claim", "invalid_execution_request", "in_progress"),
    ],
)
async def test_a_drain_that_begins_in_a_step_of_giving_up_shortens_it_and_all_that_follow(
    deliveries: DeliveryBench, clock: ManualClock, step: str, answer: str, state: str, into: float
) -> None:
    """The step that fails takes all its time and leaves some to the others."""

    def choose(_number: int, _kind: str, writes: Sequence[Write]) -> Fault | None:
        fails = (step == "letter" and writes_letter(writes)) or (step == "claim" and settles(writes))
        return Fault.DOWN if fails else None

    deliveries.store.choose = choose
    deliveries.workload.run = hopeless
    deliveries.workload.give_up = hang if step == "run" else None
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(into)
    assert not delivery.done()
    worker.lifecycle.drain()
    await clock.advance(DRAIN_WORK_SECONDS - 0.1)
    assert await delivery == answer
    assert not worker.lifecycle.in_flight, "nothing meets a store that is closed"
    assert await deliveries.field("state") == state


async def test_a_run_that_cannot_be_ended_leaves_a_drain_time_for_the_claim(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.workload.run = deaf
    deliveries.workload.give_up = hang
    worker = deliveries.worker()
    delivery = worker.start(envelope(attempt=LAST))
    await clock.advance(10)
    worker.lifecycle.drain()
    await clock.advance(DRAIN_WORK_SECONDS - 0.1)
    assert await delivery == "broker_attempts_exhausted"
    assert await deliveries.field("state") == "dead_lettered"


async def test_a_drain_does_not_cut_short_what_it_leaves_time_for(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.store.choose = lambda _number, _kind, writes: (
        Fault.DOWN if clock.monotonic() < 6 and settles(writes) else None
    )
    deliveries.workload.run = hopeless
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(1)
    worker.lifecycle.drain()
    await clock.advance(DRAIN_WORK_SECONDS - 0.1)
    assert await delivery == "invalid_execution_request"
    assert await deliveries.field("state") == "dead_lettered"


async def test_a_drain_ends_what_is_still_written_of_an_earlier_delivery(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.store.choose = lambda _number, _kind, writes: Fault.DOWN if settles(writes) else None
    worker = deliveries.worker()
    delivery = worker.start()
    await clock.advance(30)
    assert await delivery == "completed"
    assert worker.lifecycle.in_flight
    worker.lifecycle.drain()
    await clock.advance(DRAIN_WORK_SECONDS - 0.1)
    assert not worker.lifecycle.in_flight
