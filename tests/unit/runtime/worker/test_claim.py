"""Who gets a message: every row of the acquire table. Parking has a file of its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.names import TTL_FIELD
from runtime.ports.documents import Replace
from runtime.worker.claim_record import ClaimRecord, ClaimState
from runtime.worker.guard import Guard
from tests.support.claims import SUBSCRIPTION, ClaimsBench
from tests.support.faulty_documents import Fault


async def settle(bench: ClaimsBench, state: ClaimState, code: str = "", *, excused: bool = False) -> None:
    async with await bench.process().own() as guard:
        await guard.settle(state, code, within=8, excused=excused)


async def test_a_message_that_nobody_has_seen_is_claimed_with_one_write(bench: ClaimsBench) -> None:
    guard = await bench.process("rev-1/x").own()
    assert bench.store.calls == ["commit"]
    document = await bench.document()
    assert document is not None
    assert dict(document.data) == {
        "schema": 1, "message_id": "1001", "subscription": SUBSCRIPTION, "workload": "execution",
        "state": "in_progress", "owner": "rev-1/x", "token": guard.record.token, "attempts": 1, "excused": 0,
        "claimed_at_ms": 1767225600000, "heartbeat_at_ms": 1767225600000, "outcome_code": "", "failure_class": "",
        TTL_FIELD: datetime(2026, 1, 2, tzinfo=UTC),
    }  # fmt: skip


async def test_a_completed_message_is_a_duplicate(bench: ClaimsBench) -> None:
    await settle(bench, ClaimState.COMPLETED)
    assert await bench.process("b").refused() == "duplicate_settled"


async def test_a_released_message_is_taken_at_once_and_counted(bench: ClaimsBench) -> None:
    await settle(bench, ClaimState.RELEASED, "execution_failed")
    process = bench.process("b")
    guard = await process.own()
    assert (guard.record.attempts, guard.record.excused) == (2, 0)
    assert guard.record.outcome_code == "", "a running claim has no outcome"
    assert process.sample("claim_takeovers_total") == 0, "a released claim is nobody's to take over from"


async def test_an_excused_release_does_not_count_against_the_ceiling(bench: ClaimsBench) -> None:
    for _ in range(5):
        await settle(bench, ClaimState.RELEASED, "run_lease_busy", excused=True)
    guard = await bench.process().own()
    assert (guard.record.attempts, guard.record.counted) == (6, 1)


async def test_a_stale_owner_is_replaced_and_counted(bench: ClaimsBench, clock: ManualClock) -> None:
    dead = await bench.process("a").own()
    await clock.advance(180)
    process = bench.process("b")
    guard = await process.own()
    assert (guard.record.attempts, guard.record.failure_class) == (2, "dispatch_error")
    assert guard.record.token != dead.record.token
    assert process.sample("claim_takeovers_total") == 1


@pytest.mark.parametrize("skew", [600, -600])
async def test_no_wall_clock_of_a_machine_makes_a_live_claim_stale(
    bench: ClaimsBench, clock: ManualClock, skew: int
) -> None:
    """BR-36: the owner's clock is wrong; only the age that the store measures counts."""
    await bench.process("a").own()
    document = await bench.document()
    assert document is not None
    beat = document.data["heartbeat_at_ms"]
    assert isinstance(beat, int)
    forged = {**document.data, "heartbeat_at_ms": beat + skew * 1000}
    await bench.memory.commit([Replace(bench.key(), forged, document.version)])
    await clock.advance(20)
    assert await bench.process("b").refused() == "owner_in_flight"
    await clock.advance(160)
    assert isinstance(await bench.process("b").acquire(), Guard)


async def test_a_dead_lettered_message_is_nacked_until_the_window_is_over(bench: ClaimsBench) -> None:
    """BR-59, BR-60: without a count from the broker the claim's own counts; the cut-off here is 5."""
    await settle(bench, ClaimState.DEAD_LETTERED, "execution_token_rejected")
    answers = [await bench.process().refused() for _ in range(6)]
    assert answers == ["already_dead_lettered"] * 4 + ["dead_letter_window_exhausted"] * 2
    assert await bench.field("attempts") == 7
    assert await bench.field("outcome_code") == "execution_token_rejected", "the reason stays"


@pytest.mark.parametrize(
    ("broker_attempts", "delivery", "answer"),
    [
        (20, 6, "already_dead_lettered"),
        (20, 20, "already_dead_lettered"),
        (20, 21, "dead_letter_window_exhausted"),
        (None, 5, "already_dead_lettered"),
        (None, 6, "dead_letter_window_exhausted"),
    ],
)
async def test_the_brokers_count_decides_the_window_where_it_sends_one(
    clock: ManualClock, broker_attempts: int | None, delivery: int, answer: str
) -> None:
    bench = ClaimsBench(clock, broker_attempts=broker_attempts)
    await settle(bench, ClaimState.DEAD_LETTERED, "invalid_execution_request")
    assert await bench.process().refused(attempt=delivery) == answer


async def test_the_window_is_answered_even_when_its_count_cannot_be_written(bench: ClaimsBench) -> None:
    await settle(bench, ClaimState.DEAD_LETTERED, "invalid_execution_request")
    last = len(bench.store.calls) + 2
    bench.store.choose = lambda number, _kind, _writes: Fault.DOWN if number == last else None
    assert await bench.process().refused() == "already_dead_lettered"


async def test_an_unknown_state_is_read_as_released(bench: ClaimsBench) -> None:
    await bench.process().own()
    document = await bench.document()
    assert document is not None
    await bench.memory.commit([Replace(bench.key(), {**document.data, "state": "paused"}, document.version)])
    guard = await bench.process("b").own()
    assert guard.record.attempts == 2


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.MISCONFIGURED])
async def test_no_store_means_no_work(bench: ClaimsBench, fault: Fault) -> None:
    """BR-42, BR-43: fail closed, and nothing is counted."""
    bench.store.at(_0=fault)
    assert await bench.process().refused() == "claim_store_unavailable"
    assert await bench.document() is None


async def test_a_failed_read_means_no_work(bench: ClaimsBench) -> None:
    await settle(bench, ClaimState.RELEASED, "execution_failed")
    reads = len(bench.store.calls) + 1
    bench.store.choose = lambda number, _kind, _writes: Fault.DOWN if number == reads else None
    assert await bench.process().refused() == "claim_store_unavailable"
    assert await bench.field("attempts") == 1


async def test_a_create_whose_answer_was_lost_is_recognised(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.at(_0=Fault.ANSWER_LOST)
    guard = await _acquired_in(bench, clock, seconds=1)
    assert guard.record.attempts == 1, "one acquisition, whatever it took to know of it"
    async with guard:
        assert (await guard.settle(ClaimState.COMPLETED, "", within=8)).value == "done"


async def test_a_create_whose_answer_was_lost_is_recognised_also_after_a_read_that_failed(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    bench.store.at(_0=Fault.ANSWER_LOST, _1=Fault.DOWN)
    guard = await _acquired_in(bench, clock, seconds=3)
    assert guard.record.attempts == 1
    assert bench.store.calls == ["commit", "get", "get"]


async def test_a_create_whose_request_was_lost_is_made_again(bench: ClaimsBench, clock: ManualClock) -> None:
    bench.store.at(_0=Fault.REQUEST_LOST)
    guard = await _acquired_in(bench, clock, seconds=1)
    assert guard.record.attempts == 1


async def test_a_takeover_whose_answer_was_lost_is_recognised(bench: ClaimsBench, clock: ManualClock) -> None:
    await settle(bench, ClaimState.RELEASED, "execution_failed")
    write = len(bench.store.calls) + 2
    bench.store.choose = lambda number, _kind, _writes: Fault.ANSWER_LOST if number == write else None
    guard = await _acquired_in(bench, clock, seconds=1)
    assert guard.record.attempts == 2


async def test_an_unclear_create_that_another_won_is_not_mistaken_for_ours(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    bench.store.at(_0=Fault.REQUEST_LOST)
    winner = bench.process("b")
    bench.store.before[1] = winner.own
    loser = asyncio.create_task(bench.process("a").refused())
    await clock.advance(1)
    assert await loser == "owner_in_flight"


async def _acquired_in(bench: ClaimsBench, clock: ManualClock, *, seconds: float) -> Guard:
    acquiring = asyncio.create_task(bench.process().own())
    await clock.advance(seconds)
    return await acquiring


async def test_a_claim_deleted_between_create_and_read_is_created(bench: ClaimsBench, clock: ManualClock) -> None:
    """The TTL policy may act at any time: what was there for the create is gone for the read."""
    await settle(bench, ClaimState.COMPLETED)

    async def expire() -> None:
        await clock.advance(timedelta(days=2).total_seconds())
        assert await bench.memory.delete_expired([bench.settings.claims_collection], TTL_FIELD) == 1

    bench.store.before[len(bench.store.calls) + 1] = expire
    guard = await bench.process().own()
    assert guard.record.attempts == 1


async def test_a_claim_that_never_stands_still_is_left_after_three_looks(bench: ClaimsBench) -> None:
    await settle(bench, ClaimState.RELEASED, "execution_failed")
    first = len(bench.store.calls)

    async def touch() -> None:
        document = await bench.document()
        assert document is not None
        await bench.memory.commit([Replace(bench.key(), document.data, document.version)])

    for look in range(3):
        bench.store.before[first + 2 + 2 * look] = touch
    assert await bench.process().refused() == "claim_store_unavailable"
    assert await bench.field("attempts") == 1


async def test_a_takeover_that_loses_to_the_owners_settlement_is_a_duplicate(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    """BR-39: the owner completes between the read that saw it stale and the write that would replace it."""
    owner = await bench.process("a").own()
    await clock.advance(180)
    document = await bench.document()
    assert document is not None
    completed = {**document.data, "state": "completed"}

    async def complete() -> None:
        assert document is not None
        await bench.memory.commit([Replace(bench.key(), completed, document.version)])

    bench.store.before[len(bench.store.calls) + 2] = complete
    assert await bench.process("b").refused() == "duplicate_settled"
    assert await bench.field("attempts") == owner.record.attempts


async def test_a_draining_process_claims_nothing(bench: ClaimsBench) -> None:
    process = bench.process()
    process.lifecycle.drain()
    assert await process.refused() == "worker_shutdown"
    assert bench.store.calls == []


def test_a_record_of_another_revision_is_read_as_far_as_it_goes() -> None:
    record = ClaimRecord.read({"state": "released", "attempts": "3", "excused": -1, "owner": None})
    assert (record.attempts, record.excused, record.owner, record.token) == (0, 0, "", "")
