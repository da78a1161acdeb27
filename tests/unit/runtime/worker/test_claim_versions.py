"""Revisions that know different claims, on one subscription: none destroys or misreads what another wrote."""

from __future__ import annotations

import pytest

from runtime.adapters.clock import ManualClock
from runtime.ports.documents import Create, Replace, Value
from runtime.worker.claim_record import ClaimState
from runtime.worker.guard import Guard
from tests.support.claims import ClaimsBench

LATER: dict[str, Value] = {"schema": 7, "region": "europe-west1", "spans": [{"id": b"\x01"}]}
"""What a later revision writes besides."""


async def later(bench: ClaimsBench, state: str = "released", **changes: Value) -> None:
    """A claim as a later revision leaves it."""
    guard = await bench.process("new").own()
    await guard.settle(ClaimState.RELEASED, "execution_failed", within=8)
    document = await bench.document()
    assert document is not None
    data = {**document.data, **LATER, "state": state, **changes}
    await bench.memory.commit([Replace(bench.key(), data, document.version)])


async def kept(bench: ClaimsBench) -> bool:
    document = await bench.document()
    assert document is not None
    return {name: document.data[name] for name in LATER} == LATER


async def test_a_takeover_a_heartbeat_and_a_settlement_keep_what_a_later_revision_added(
    bench: ClaimsBench, clock: ManualClock
) -> None:
    await later(bench)
    async with await bench.process("old").own() as guard:
        assert await kept(bench), "taken over"
        await clock.advance(31)
        assert await bench.field("heartbeat_at_ms") != await bench.field("claimed_at_ms")
        assert await kept(bench), "renewed"
        await guard.settle(ClaimState.COMPLETED, "", within=8)
    assert await kept(bench), "settled"
    assert (await bench.field("attempts"), await bench.field("state")) == (2, "completed")


async def test_a_counted_dead_letter_and_a_dropped_claim_keep_it_too(bench: ClaimsBench) -> None:
    await later(bench, "dead_lettered")
    assert await bench.process("old").refused() == "already_dead_lettered"
    assert await kept(bench)
    bench_two = ClaimsBench(bench.clock)
    await later(bench_two)
    async with await bench_two.process("old").own():
        pass
    assert await bench_two.field("outcome_code") == "guard_dropped"
    assert await kept(bench_two)


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("completed", "duplicate_settled"),
        ("dead_lettered", "already_dead_lettered"),
        ("in_progress", "owner_in_flight"),
    ],
)
async def test_a_later_schema_changes_nothing_of_what_a_known_state_means(
    bench: ClaimsBench, state: str, answer: str
) -> None:
    await later(bench, state)
    assert await bench.process("old").refused() == answer


async def test_a_state_of_a_later_revision_is_worked_and_its_counters_go_on(bench: ClaimsBench) -> None:
    await later(bench, "paused", attempts=4, excused=3)
    guard = await bench.process("old").own()
    assert (guard.record.attempts, guard.record.counted) == (5, 2)
    assert await kept(bench)


async def test_a_claim_of_an_earlier_revision_lacks_what_was_added_since(bench: ClaimsBench) -> None:
    """Before there were excused attempts and failure classes."""
    old: dict[str, Value] = {"message_id": "1001", "state": "released", "attempts": 2, "token": "t"}
    await bench.memory.commit([Create(bench.key(), old)])
    guard = await bench.process("new").acquire()
    assert isinstance(guard, Guard)
    assert (guard.record.attempts, guard.record.excused, await bench.field("schema")) == (3, 0, 1)
