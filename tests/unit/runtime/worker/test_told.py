"""What a worker tells: each line with the fields that somebody looks for, each number under the name of an alert."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.observability.log_context import add_fields
from runtime.worker.claim_record import ClaimState
from runtime.worker.workload import Ended
from tests.support.deliveries import DeliveryBench, Worker, envelope
from tests.support.faulty_documents import Fault

Story = Callable[[DeliveryBench, Worker, ManualClock], Awaitable[object]]


@pytest.fixture
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Every line, with what its delivery is bound to."""
    with capture_logs(processors=[add_fields]) as lines:
        yield lines


async def ending(bench: DeliveryBench, worker: Worker, code: str, **envelope_fields: Any) -> str:
    async def run(_stop: asyncio.Event) -> Ended:
        return Ended(code, "why")

    bench.workload.run = run
    return await worker.deliver(envelope(**envelope_fields))


async def completed(bench: DeliveryBench, worker: Worker, _clock: ManualClock) -> None:
    await ending(bench, worker, "completed")


async def failed(bench: DeliveryBench, worker: Worker, _clock: ManualClock) -> None:
    await ending(bench, worker, "run_lease_busy")


async def given_up(bench: DeliveryBench, worker: Worker, _clock: ManualClock) -> None:
    await ending(bench, worker, "invalid_execution_request", attempt=3)


async def refused(_bench: DeliveryBench, worker: Worker, _clock: ManualClock) -> None:
    token = worker.bench.identity.token(email="mallory@evil.example")
    await worker.deliver(authorization=(b"Bearer " + token,))


async def parked(bench: DeliveryBench, worker: Worker, clock: ManualClock) -> None:
    async with await bench.process("other").own() as guard:
        await clock.advance(20)
        delivery = worker.start()
        await clock.advance(181)
        await guard.settle(ClaimState.COMPLETED, "", within=8)
    await delivery


async def taken_over(bench: DeliveryBench, worker: Worker, clock: ManualClock) -> None:
    await bench.process("other").own()
    await clock.advance(180)
    await worker.deliver()


async def beat_unconfirmed(bench: DeliveryBench, worker: Worker, clock: ManualClock) -> None:
    bench.store.at(_1=Fault.DOWN)
    await slow(bench, worker, clock, 60)


async def lost(bench: DeliveryBench, worker: Worker, clock: ManualClock) -> None:
    bench.store.choose = lambda number, _kind, _writes: Fault.DOWN if number else None
    await slow(bench, worker, clock, 300)


async def slow(bench: DeliveryBench, worker: Worker, clock: ManualClock, seconds: float) -> None:
    async def run(stop: asyncio.Event) -> Ended | None:
        ended = asyncio.create_task(clock.sleep(seconds))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, stopped):
            task.cancel()
        await asyncio.wait({ended, stopped})
        return None if stop.is_set() else Ended("completed")

    bench.workload.run = run
    delivery = worker.start()
    await clock.advance(seconds)
    await delivery


TOLD: Final[list[tuple[Story, str, str, set[str]]]] = [
    (completed, "work_completed", "info", {"message_id", "attempts", "excused"}),
    (completed, "delivery_answered", "info", {"message_id", "outcome", "status"}),
    (completed, "push_keys_refreshed", "info", {"key_count"}),
    (failed, "claim_released", "info", {"message_id", "failure_code", "attempts", "excused", "error"}),
    (
        given_up, "pubsub_message_dead_lettered", "error",
        {"message_id", "delivery_attempt", "subscription", "attempts", "excused", "reason", "failure_class",
         "last_failure_class", "run_id", "error"},
    ),
    (refused, "delivery_refused", "warning", {"code", "error", "push_service_account", "push_audience"}),
    (parked, "delivery_parked", "info", {"message_id", "owner", "attempts", "age_seconds", "park_seconds"}),
    (taken_over, "claim_taken_over", "warning", {"message_id", "owner", "attempts", "age_seconds"}),
    (beat_unconfirmed, "claim_heartbeat_failed", "warning", {"message_id", "work", "error"}),
    (lost, "claim_lost", "warning", {"message_id", "cause", "owner", "attempts"}),
    (lost, "work_interrupted", "warning", {"message_id", "reason"}),
]  # fmt: skip


@pytest.mark.parametrize(("story", "event", "level", "fields"), TOLD, ids=[row[1] for row in TOLD])
async def test_a_line_has_its_name_its_severity_and_its_fields(
    deliveries: DeliveryBench,
    clock: ManualClock,
    logs: list[MutableMapping[str, Any]],
    story: Story,
    event: str,
    level: str,
    fields: set[str],
) -> None:
    await story(deliveries, deliveries.worker(), clock)
    [line, *_] = [line for line in logs if line["event"] == event]
    assert line["log_level"] == level
    assert fields - set(line) == set()
    assert "mallory" not in str(logs), "what a stranger presents is not repeated"


COUNTED: Final[list[tuple[Story, str, dict[str, str]]]] = [
    (completed, "deliveries_total", {"outcome": "completed"}),
    (refused, "deliveries_total", {"outcome": "push_token_rejected"}),
    (given_up, "dead_letters_total", {"source": "execution", "failure_class": "malformed_message"}),
    (parked, "claim_waits_total", {}),
    (taken_over, "claim_takeovers_total", {}),
    (beat_unconfirmed, "heartbeat_failures_total", {"cause": "unknown"}),
    (lost, "heartbeat_failures_total", {"cause": "unconfirmed"}),
]


@pytest.mark.parametrize(("story", "metric", "labels"), COUNTED, ids=[f"{row[1]}{row[2]}" for row in COUNTED])
async def test_a_number_has_its_name_and_its_labels(
    deliveries: DeliveryBench, clock: ManualClock, story: Story, metric: str, labels: dict[str, str]
) -> None:
    worker = deliveries.worker()
    assert worker.sample(metric, **labels) == 0
    await story(deliveries, worker, clock)
    assert worker.sample(metric, **labels) == 1
