"""Writes of runs under races and lost answers: none is lost, none is made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest

from runtime.api.payloads import payload_document
from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord, new_record
from runtime.api.run_store import TRIES, Change
from runtime.api.transitions import cancel
from runtime.contract import names
from runtime.contract.states import RunMode, RunState
from runtime.ports.documents import Create, Key, StoreMisconfigured, StoreUnavailable, Write
from tests.support.api_bench import ApiBench
from tests.support.faulty_documents import Fault


def record(bench: ApiBench, submission_id: str = "s1") -> RunRecord:
    return new_record(
        run_id="r1",
        submission_id=submission_id,
        mode=RunMode.ASYNC,
        app_id="default",
        user_id="shop",
        engine="flow",
        request_hash="0" * 64,
        timeout=timedelta(seconds=60),
        max_attempts=3,
        labels={},
        max_queue_age=timedelta(days=1),
        at=bench.clock.now(),
    )


async def create(bench: ApiBench, submission_id: str = "s1") -> tuple[RunRecord, bool]:
    return await bench.within(
        bench.runs.create(record(bench, submission_id), [payload_document("r1", b"{}")]), step=0.1
    )


def counted(run: RunRecord) -> Change[int]:
    """A change that anyone can see was made once more."""
    return Change(run.next_sequence + 1, msgspec.structs.replace(run, next_sequence=run.next_sequence + 1))


async def test_a_new_run_and_its_payload_are_one_commit() -> None:
    bench = ApiBench()
    stored, mine = await create(bench)
    assert mine
    assert stored.write_id
    assert bench.documents.calls == ["commit"]
    assert await bench.everything() == {names.RUNS: ["r1"], names.RUN_PAYLOADS: ["r1"]}


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_creation_with_a_lost_answer_is_recognised_as_its_own(fault: Fault) -> None:
    bench = ApiBench()
    bench.documents.at(_0=fault)
    stored, mine = await create(bench)
    assert mine
    assert stored.submission_id == "s1"
    assert bench.metrics.registry.get_sample_value("runs_total", {"state": "queued", "failure_class": ""}) == 1


async def test_a_lost_creation_is_recognised_after_another_writer_has_moved_the_run() -> None:
    bench = ApiBench()
    bench.documents.at(_0=Fault.ANSWER_LOST)

    async def other_writer() -> None:
        await bench.runs.change("r1", lambda run, now: Change(None, cancel(run, now)))

    bench.documents.before[1] = other_writer
    stored, mine = await create(bench)
    assert mine
    assert stored.state is RunState.CANCELLED


async def test_the_second_of_two_creations_is_given_the_first() -> None:
    bench = ApiBench()
    one, two = await asyncio.gather(create(bench, "s1"), create(bench, "s2"))
    assert [mine for _, mine in (one, two)].count(True) == 1
    assert one[0].submission_id == two[0].submission_id


async def test_what_an_earlier_run_of_the_id_left_behind_does_not_stop_a_new_one() -> None:
    bench = ApiBench()
    await bench.store.commit([Create(Key(names.RUN_PAYLOADS, "r1"), {"payload": b"old"})])
    _, mine = await create(bench)
    assert mine
    payload = await bench.stored(names.RUN_PAYLOADS, "r1")
    assert payload is not None
    assert payload["payload"] == b"{}"


async def test_a_store_that_stays_away_ends_the_try_in_bounded_time() -> None:
    bench = ApiBench()
    bench.documents.choose = lambda _number, _kind, _writes: Fault.REQUEST_LOST
    with pytest.raises(StoreUnavailable, match="r1 could not be written within 8 tries"):
        await create(bench)
    assert len(bench.documents.calls) <= 2 * TRIES
    assert bench.clock.monotonic() <= 21


async def test_a_store_that_says_no_is_not_asked_again() -> None:
    bench = ApiBench()
    bench.documents.at(_0=Fault.MISCONFIGURED)
    with pytest.raises(StoreMisconfigured):
        await create(bench)
    assert bench.documents.calls == ["commit"]


async def test_an_unknown_run_is_a_404() -> None:
    bench = ApiBench()
    with pytest.raises(Problem) as caught:
        await bench.runs.change("nobody", lambda run, _now: counted(run))
    assert (caught.value.status, caught.value.code) == (404, "run_not_found")


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST])
async def test_a_change_is_made_exactly_once_whatever_is_lost(fault: Fault, call: int) -> None:
    bench = ApiBench()
    await create(bench)
    bench.documents.calls.clear()
    bench.documents.choose = lambda number, _kind, _writes: fault if number == call else None
    after, value = await bench.within(bench.runs.change("r1", lambda run, _now: counted(run)), step=0.1)
    assert (after.next_sequence, value) == (1, 1)
    assert (await bench.record()).next_sequence == 1


async def test_a_write_that_arrives_after_it_was_given_up_is_not_made_twice() -> None:
    bench = ApiBench()
    await create(bench)
    bench.documents.calls.clear()
    late: list[Write] = []

    def lose(number: int, kind: str, writes: Sequence[Write]) -> Fault | None:
        if (number, kind) != (1, "commit"):
            return None
        late.extend(writes)
        return Fault.REQUEST_LOST

    async def arrive() -> None:
        await bench.store.commit(late)

    bench.documents.choose = lose
    bench.documents.before[3] = arrive  # between the read that did not show it and the commit that repeats it
    after, value = await bench.within(bench.runs.change("r1", lambda run, _now: counted(run)), step=0.1)
    assert (after.next_sequence, value) == (1, 1)
    assert (await bench.record()).next_sequence == 1


async def test_racing_changes_all_hold() -> None:
    bench = ApiBench()
    await create(bench)
    await asyncio.gather(*(bench.runs.change("r1", lambda run, _now: counted(run)) for _ in range(5)))
    assert (await bench.record()).next_sequence == 5


async def test_a_change_that_writes_nothing_writes_nothing() -> None:
    bench = ApiBench()
    await create(bench)
    bench.documents.calls.clear()
    await bench.runs.change("r1", lambda _run, _now: Change(None))
    assert bench.documents.calls == ["get"]


async def test_every_document_of_a_run_carries_the_time_it_may_go() -> None:
    bench = ApiBench()
    await bench.accept()
    await bench.lease("a")
    await bench.events("a", 0)
    await bench.progress("a", "completed", result=1)
    for collection, id_ in (
        ("runs", "r1"),
        ("run_payloads", "r1"),
        ("run_results", "r1"),
        ("run_events", "r1.000000000000"),
    ):
        data = await bench.stored(collection, id_)
        assert data is not None
        assert data["expires_at_ts"] >= bench.clock.now() + timedelta(days=7), collection  # type: ignore[operator]  # a stored time


async def test_the_ttl_takes_the_run_no_later_than_what_stands_beside_it() -> None:
    bench = ApiBench()
    await bench.accept()
    await bench.lease("a")
    await bench.events("a", 0)
    await bench.progress("a", "completed", result=1)
    await bench.clock.advance(7 * 86400)
    await bench.store.delete_expired(names.TTL_COLLECTIONS, names.TTL_FIELD)
    left = await bench.everything()
    assert names.RUNS not in left
    assert names.RUN_PAYLOADS in left
