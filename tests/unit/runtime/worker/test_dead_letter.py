"""When a message is given up, what is written, and what its later deliveries get."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.dead_letter import LETTER_RETENTION
from runtime.contract.limits import DEAD_LETTER_PAYLOAD_BYTES
from runtime.contract.states import FailureClass
from runtime.ports.documents import Create, Replace, Write
from runtime.worker.workload import Ended, JobFacts, UnusableMessage
from tests.support.claims import SUBSCRIPTION
from tests.support.deliveries import DeliveryBench, completed, envelope
from tests.support.faulty_documents import Fault


def ends(code: str, error: str = "") -> Callable[[asyncio.Event], Awaitable[Ended]]:
    async def run(_stop: asyncio.Event) -> Ended:
        return Ended(code, error)

    return run


def is_letter(writes: Sequence[Write]) -> bool:
    return any(isinstance(write, Create) and write.key.collection == "dead_letters" for write in writes)


def gives_up(writes: Sequence[Write]) -> bool:
    return any(isinstance(write, Replace) and write.data.get("state") == "dead_lettered" for write in writes)


def dead_lines(logs: list[MutableMapping[str, Any]]) -> int:
    return sum(line["event"] == "pubsub_message_dead_lettered" and line["log_level"] == "error" for line in logs)


async def walk(deliveries: DeliveryBench, count: int, *, counted: bool) -> list[str]:
    """`count` deliveries of one message, with or without the broker's own count."""
    worker = deliveries.worker()
    return [await worker.deliver(envelope(attempt=number + 1 if counted else None)) for number in range(count)]


@pytest.mark.parametrize("counted", [True, False])
async def test_a_job_that_can_never_succeed_is_worked_once(
    deliveries: DeliveryBench, logs: list[MutableMapping[str, Any]], *, counted: bool
) -> None:
    """BR-59"""
    deliveries.workload.run = ends("execution_claims_mismatch", "payload is not the one that was signed")
    answers = await walk(deliveries, 6, counted=counted)
    assert answers == [
        "execution_claims_mismatch", *["already_dead_lettered"] * 4, "dead_letter_window_exhausted",
    ]  # fmt: skip
    assert (deliveries.workload.runs, len(deliveries.workload.given_up), dead_lines(logs)) == (1, 1, 1)
    assert len(await deliveries.letters()) == 1


@pytest.mark.parametrize("counted", [True, False])
async def test_a_job_that_always_fails_is_worked_to_the_ceiling(
    deliveries: DeliveryBench, logs: list[MutableMapping[str, Any]], *, counted: bool
) -> None:
    """BR-60"""
    deliveries.workload.run = ends("callback_unacknowledged")
    answers = await walk(deliveries, 6, counted=counted)
    assert answers == [
        *["callback_unacknowledged"] * 3, "max_delivery_attempts_exceeded", "already_dead_lettered",
        "dead_letter_window_exhausted",
    ]  # fmt: skip
    assert (deliveries.workload.runs, dead_lines(logs)) == (3, 1)
    expected = (FailureClass.RETRY_EXHAUSTED, FailureClass.RESULT_STORE_ERROR)
    assert [entry[:2] for entry in deliveries.workload.given_up] == [expected]


async def test_a_message_that_was_never_worked_is_worked_whatever_its_count(deliveries: DeliveryBench) -> None:
    """BR-50"""
    assert await deliveries.worker().deliver(envelope(attempt=40)) == "completed"
    assert deliveries.workload.runs == 1


async def test_excused_attempts_never_use_up_a_message(deliveries: DeliveryBench) -> None:
    deliveries.workload.run = ends("run_lease_busy")
    assert set(await walk(deliveries, 30, counted=False)) == {"run_lease_busy"}
    deliveries.workload.run = completed
    assert await deliveries.worker().deliver() == "completed"


async def test_excused_and_counted_attempts_are_told_apart(deliveries: DeliveryBench) -> None:
    worker = deliveries.worker()
    for code in ("execution_failed", "run_api_unavailable", "execution_failed", "run_lease_busy", "execution_failed"):
        deliveries.workload.run = ends(code)
        assert await worker.deliver() == code
    assert await worker.deliver() == "max_delivery_attempts_exceeded"
    (letter,) = await deliveries.letters()
    assert (letter["attempts"], letter["excused"]) == (6, 2)


async def test_a_runs_own_ceiling_is_kept(deliveries: DeliveryBench) -> None:
    deliveries.workload.facts = JobFacts(run_id="run-1", max_attempts=1)
    deliveries.workload.run = ends("execution_failed")
    assert await walk(deliveries, 2, counted=False) == ["execution_failed", "max_delivery_attempts_exceeded"]
    assert deliveries.workload.runs == 1


async def test_a_runs_own_ceiling_does_not_raise_the_workers(deliveries: DeliveryBench) -> None:
    deliveries.workload.facts = JobFacts(max_attempts=50)
    deliveries.workload.run = ends("execution_failed")
    assert (await walk(deliveries, 4, counted=False))[-1] == "max_delivery_attempts_exceeded"


async def test_owners_that_are_killed_use_up_their_message(deliveries: DeliveryBench, clock: ManualClock) -> None:
    """No error is ever seen, and it still ends in a letter."""
    for _ in range(3):
        await deliveries.process().own()
        await clock.advance(180)
    assert await deliveries.worker().deliver() == "max_delivery_attempts_exceeded"
    (letter,) = await deliveries.letters()
    assert letter["last_failure_class"] == "dispatch_error"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("execution_failed", "dispatch_error"),
        ("run_lease_busy", "backpressure"),
        ("processing_timeout", "framework_timeout"),
    ],
)
async def test_a_retryable_end_of_the_brokers_last_delivery_is_the_end(
    clock: ManualClock, code: str, cause: str
) -> None:
    deliveries = DeliveryBench(clock, broker_attempts=20)
    deliveries.workload.run = ends(code)
    assert await deliveries.worker().deliver(envelope(attempt=19)) == code
    assert await deliveries.letters() == []
    assert await deliveries.worker().deliver(envelope(attempt=20)) == "broker_attempts_exhausted"
    (letter,) = await deliveries.letters()
    assert (letter["failure_class"], letter["last_failure_class"]) == ("retry_exhausted", cause)
    assert await deliveries.worker().deliver(envelope(attempt=20)) == "already_dead_lettered"
    assert await deliveries.worker().deliver(envelope(attempt=21)) == "dead_letter_window_exhausted"


async def test_the_brokers_last_delivery_may_still_succeed(clock: ManualClock) -> None:
    deliveries = DeliveryBench(clock, broker_attempts=20)
    assert await deliveries.worker().deliver(envelope(attempt=20)) == "completed"
    assert await deliveries.letters() == []


async def test_a_letter_says_what_is_needed_to_find_and_judge_the_message(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    data = b'{"v": 1}\n'
    deliveries.workload.facts = JobFacts(run_id="run-1", job_id="run-1.2", app_id="app", engine="flow")
    deliveries.workload.run = ends("execution_failed", "first line")
    for attempt in (7, 8, 9):
        await deliveries.worker().deliver(envelope(data, attempt=attempt, orderingKey="k"))
    await deliveries.worker().deliver(envelope(data, attempt=10, orderingKey="k"))
    (letter,) = await deliveries.letters()
    error = letter.pop("error")
    assert isinstance(error, str)
    assert "3 attempts" in error
    assert letter == {
        "version": "v1", "source": "execution", "state": "dead_lettered", "failure_class": "retry_exhausted",
        "last_failure_class": "dispatch_error", "run_id": "run-1", "job_id": "run-1.2", "app_id": "app",
        "engine": "flow", "topic": None, "subscription": SUBSCRIPTION, "message_id": "1001", "ordering_key": "k",
        "delivery_attempt": 10, "attempts": 4, "excused": 0, "reason": "max_delivery_attempts_exceeded",
        "payload_sha256": hashlib.sha256(data).hexdigest(), "payload_bytes": len(data), "has_payload": True,
        "failed_at": clock.now(), "worker": "rev-1", "expires_at_ts": clock.now() + LETTER_RETENTION,
        "published_at": datetime(2026, 11, 30, 12, tzinfo=UTC), "spurious": False, "replayed_generation": None,
        "replayed_at": None, "replayed_by": None,
    }  # fmt: skip
    (payload,) = await deliveries.letter_payloads()
    assert (payload["data"], payload["encoding"]) == (data, "decoded")


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"", b""),
        (b"not json \x00\xff", b"not json \x00\xff"),
        ("____dGVzdA==", b"____dGVzdA=="),
        (b"x" * DEAD_LETTER_PAYLOAD_BYTES, b"x" * DEAD_LETTER_PAYLOAD_BYTES),
        (b"x" * (DEAD_LETTER_PAYLOAD_BYTES + 1), None),
    ],
    ids=["empty", "bytes", "not base64", "largest", "too large"],
)
async def test_the_original_bytes_are_kept_up_to_a_size(
    deliveries: DeliveryBench, data: bytes | str, kept: bytes | None
) -> None:
    deliveries.workload.unusable = UnusableMessage("it is not JSON", code="invalid_execution_payload")
    assert await deliveries.worker().deliver(envelope(data)) == "invalid_execution_payload"
    (letter,) = await deliveries.letters()
    assert (letter["failure_class"], letter["has_payload"]) == ("malformed_message", kept is not None)
    assert [one["data"] for one in await deliveries.letter_payloads()] == ([] if kept is None else [kept])
    assert deliveries.workload.given_up == [], "nobody vouches for a job that cannot be read"


async def test_nothing_that_a_message_carries_keeps_its_letter_from_being_written(deliveries: DeliveryBench) -> None:
    deliveries.workload.run = ends("invalid_execution_request", "x" * 2**21)
    body = envelope(orderingKey="k" * 2**21, attributes={"a": "x" * 2**21})
    assert await deliveries.worker().deliver(body) == "invalid_execution_request"
    assert len(await deliveries.letters()) == 1


async def test_a_claim_lost_before_the_letter_writes_none(deliveries: DeliveryBench, clock: ManualClock) -> None:
    async def too_late(stop: asyncio.Event) -> Ended:
        await stop.wait()
        return Ended("invalid_execution_request")

    deliveries.workload.run = too_late
    delivery = deliveries.worker().start()
    await clock.advance(1)
    document = await deliveries.document()
    assert document is not None
    await deliveries.memory.commit([Replace(deliveries.key(), {**document.data, "token": "x"}, document.version)])
    await clock.advance(30)
    assert (await delivery, await deliveries.letters()) == ("claim_lost", [])


async def test_letter_and_payload_are_one_write(deliveries: DeliveryBench) -> None:
    seen: list[int] = []

    def count(_number: int, _kind: str, writes: Sequence[Write]) -> None:
        if is_letter(writes):
            seen.append(len(writes))

    deliveries.store.choose = count
    deliveries.workload.run = ends("invalid_execution_request")
    await deliveries.worker().deliver()
    assert seen == [2]


async def test_a_letter_that_cannot_be_written_is_never_acknowledged(
    deliveries: DeliveryBench, clock: ManualClock
) -> None:
    deliveries.store.choose = lambda _number, _kind, writes: Fault.DOWN if is_letter(writes) else None
    deliveries.workload.run = ends("invalid_execution_request")
    delivery = deliveries.worker().start()
    await clock.advance(8)
    assert await delivery == "dead_letter_unrecorded"
    assert (await deliveries.field("state"), await deliveries.letters()) == ("released", [])
    assert deliveries.workload.given_up == [], "no run is ended without its letter"
    deliveries.store.choose = lambda _number, _kind, _writes: None
    assert await deliveries.worker().deliver() == "invalid_execution_request", "the next delivery tries again"


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_letter_is_tried_until_it_is_there(deliveries: DeliveryBench, clock: ManualClock, fault: Fault) -> None:
    faults = iter([fault, fault])
    deliveries.store.choose = lambda _number, _kind, writes: next(faults, None) if is_letter(writes) else None
    deliveries.workload.run = ends("invalid_execution_request")
    delivery = deliveries.worker().start()
    await clock.advance(2)
    assert await delivery == "invalid_execution_request"
    assert len(await deliveries.letters()) == 1


async def test_a_run_that_cannot_be_ended_does_not_stop_its_letter(
    deliveries: DeliveryBench, clock: ManualClock, logs: list[MutableMapping[str, Any]]
) -> None:
    """BR-59: the callback fails, the answers stay."""

    async def unreachable() -> None:
        raise OSError("the API is away")

    deliveries.workload.run = ends("invalid_execution_request")
    deliveries.workload.give_up = unreachable
    assert await walk(deliveries, 3, counted=False) == [
        "invalid_execution_request", "already_dead_lettered", "already_dead_lettered",
    ]  # fmt: skip
    assert "terminal_state_unrecorded" in {line["event"] for line in logs}
    assert len(deliveries.workload.given_up) == 1


async def test_a_callback_that_hangs_ends_with_its_budget(deliveries: DeliveryBench, clock: ManualClock) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    deliveries.workload.run = ends("invalid_execution_request")
    deliveries.workload.give_up = hang
    delivery = deliveries.worker().start()
    await clock.advance(8)
    assert await delivery == "invalid_execution_request"


async def test_a_crash_after_the_letter_leaves_one_letter(deliveries: DeliveryBench, clock: ManualClock) -> None:
    deliveries.workload.run = ends("invalid_execution_request")
    deliveries.store.choose = lambda _n, _kind, writes: Fault.CANCELLED_BEFORE if gives_up(writes) else None
    with pytest.raises(asyncio.CancelledError):
        await deliveries.worker().start()
    deliveries.store.choose = lambda _number, _kind, _writes: None
    await clock.advance(180)
    assert await deliveries.worker().deliver() == "invalid_execution_request"
    assert len(await deliveries.letters()) == 1


async def test_a_claim_lost_while_it_is_buried_is_left_to_its_new_owner(
    deliveries: DeliveryBench, logs: list[MutableMapping[str, Any]]
) -> None:
    async def taken_over() -> None:
        document = await deliveries.document()
        assert document is not None
        await deliveries.memory.commit([Replace(deliveries.key(), {**document.data, "token": "x"}, document.version)])

    deliveries.workload.run = ends("invalid_execution_request")
    deliveries.workload.give_up = taken_over
    assert await deliveries.worker().deliver() == "claim_lost"
    assert await deliveries.field("state") == "in_progress"
    assert dead_lines(logs) == 0


async def test_a_claim_lost_before_its_run_is_ended_ends_none(deliveries: DeliveryBench, clock: ManualClock) -> None:
    """The letter takes a while, in which a heartbeat finds the message another's, who works on the run."""

    async def late(_stop: asyncio.Event) -> Ended:
        await clock.sleep(27)
        return Ended("invalid_execution_request")

    deliveries.workload.run = late
    deliveries.store.choose = lambda _number, _kind, writes: (
        Fault.DOWN if is_letter(writes) and clock.monotonic() < 30.5 else None
    )
    delivery = deliveries.worker().start()
    await clock.advance(28)
    document = await deliveries.document()
    assert document is not None
    await deliveries.memory.commit([Replace(deliveries.key(), {**document.data, "token": "x"}, document.version)])
    await clock.advance(5)
    assert (await delivery, len(await deliveries.letters())) == ("claim_lost", 1)
    assert deliveries.workload.given_up == []


async def test_dead_letters_are_counted_by_source_and_class(deliveries: DeliveryBench) -> None:
    deliveries.workload.run = ends("invalid_execution_request")
    worker = deliveries.worker()
    await worker.deliver()
    assert worker.sample("dead_letters_total", source="execution", failure_class="malformed_message") == 1


async def test_a_message_that_was_forgotten_is_worked_again(deliveries: DeliveryBench, clock: ManualClock) -> None:
    """Retention is longer than every redelivery; after it the claim is gone and the letter is not."""
    deliveries.workload.run = ends("invalid_execution_request")
    await deliveries.worker().deliver()
    await clock.advance(timedelta(days=2).total_seconds())
    await deliveries.memory.delete_expired([deliveries.settings.claims_collection, "dead_letters"], "expires_at_ts")
    assert len(await deliveries.letters()) == 1
    deliveries.workload.run = completed
    assert await deliveries.worker().deliver() == "completed"
