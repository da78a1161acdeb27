"""One suite of deliveries for every store and every broker: what is pushed is worked once, and ends.

With Google's emulator as broker, what is proved is its storage, its redelivery, its count of deliveries and its
dead-letter topic, together with our worker: see `tests/support/pushing_brokers.py` for what is the front's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.ports.documents import Documents
from runtime.worker.workload import Ended
from tests.support.pushed_worker import PushedWorker, pushed_worker
from tests.support.pushing_brokers import ATTEMPTS, Ground, PushingBroker, emulator_broker, ground, sandbox_broker

pytestmark = pytest.mark.parametrize(
    "backend", ["memory", "postgres", pytest.param("firestore", marks=pytest.mark.emulator)], indirect=True
)

Open = Callable[[Ground], AbstractAsyncContextManager[PushingBroker]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture(params=["sandbox", pytest.param("emulator", marks=pytest.mark.emulator)])
def open_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Starts what is needed; not in a loop, which starting a process would block."""
    if request.param == "sandbox":
        return lambda ground: sandbox_broker(ground, tmp_path)
    address, project = request.getfixturevalue("pubsub_emulator"), request.getfixturevalue("project")
    return lambda ground: emulator_broker(ground, address, project)


@pytest.fixture
async def broker_and_worker(
    open_broker: Open, documents: Documents, tmp_path: Path
) -> AsyncIterator[tuple[PushingBroker, PushedWorker]]:
    async with (
        ground(tmp_path) as below,
        open_broker(below) as broker,
        pushed_worker(below, broker, documents) as worker,
    ):
        yield broker, worker


@pytest.fixture
def broker(broker_and_worker: tuple[PushingBroker, PushedWorker]) -> PushingBroker:
    return broker_and_worker[0]


@pytest.fixture
def worker(broker_and_worker: tuple[PushingBroker, PushedWorker]) -> PushedWorker:
    return broker_and_worker[1]


async def test_each_message_is_worked_once_and_acknowledged(broker: PushingBroker, worker: PushedWorker) -> None:
    ids = [await broker.publish(b"{}") for _ in range(5)]
    await broker.idle()
    assert worker.workload.runs == len(set(ids))
    for message_id in ids:
        claim = await worker.claim(message_id)
        assert (claim["state"], claim["attempts"], claim["excused"]) == ("completed", 1, 0)
    assert worker.answers == {"completed": 5}


async def test_a_message_whose_work_fails_comes_again_and_succeeds(broker: PushingBroker, worker: PushedWorker) -> None:
    ends = iter(["execution_failed", "run_lease_busy"])

    async def in_the_end(_stop: asyncio.Event) -> Ended:
        return Ended(next(ends, "completed"))

    worker.workload.run = in_the_end
    message_id = await broker.publish(b"{}")
    await broker.idle()
    claim = await worker.claim(message_id)
    assert (claim["state"], claim["attempts"], claim["excused"]) == ("completed", 3, 1)
    assert worker.workload.runs == 3


async def test_a_message_that_cannot_succeed_is_worked_once_and_ends_as_a_letter_in_both_places(
    broker: PushingBroker, worker: PushedWorker
) -> None:
    """BR-59"""

    async def never(_stop: asyncio.Event) -> Ended:
        return Ended("invalid_execution_request", "no such field")

    worker.workload.run = never
    message_id = await broker.publish(b"poison")
    [dead] = await broker.dead()
    await broker.idle()
    assert dead.data == b"poison"
    assert dead.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == str(ATTEMPTS)
    assert broker.subscription.endswith(dead.attributes["CloudPubSubDeadLetterSourceSubscription"])
    assert worker.workload.runs == 1
    letter, claim = await worker.letter(message_id), await worker.claim(message_id)
    assert (letter["reason"], letter["delivery_attempt"]) == ("invalid_execution_request", 1)
    assert claim["state"] == "dead_lettered"
    assert worker.answers == {"invalid_execution_request": 1, "already_dead_lettered": ATTEMPTS - 1}


async def test_a_message_that_is_excused_to_the_last_delivery_ends_as_a_letter(
    broker: PushingBroker, worker: PushedWorker
) -> None:
    async def busy(_stop: asyncio.Event) -> Ended:
        return Ended("run_lease_busy")

    worker.workload.run = busy
    message_id = await broker.publish(b"{}")
    await broker.dead()
    await broker.idle()
    letter = await worker.letter(message_id)
    assert (letter["reason"], letter["delivery_attempt"]) == ("broker_attempts_exhausted", ATTEMPTS)
    assert (letter["failure_class"], letter["last_failure_class"]) == ("retry_exhausted", "backpressure")
    assert (letter["attempts"], letter["excused"]) == (ATTEMPTS, ATTEMPTS - 1), (
        "the last one is not excused: it ends it"
    )
