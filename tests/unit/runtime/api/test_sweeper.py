"""The tick: nothing that was accepted is forgotten, and two ticks at once do nothing twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from runtime.api import sweeper
from runtime.contract import names
from runtime.contract.states import FailureClass, RunMode, RunState
from runtime.ports.documents import Delete, Key, Replace, StoreUnavailable
from tests.support.api_bench import ApiBench, request
from tests.support.faulty_documents import Fault

NOTHING = {
    "published": 0,
    "not_published": 0,
    "expired": 0,
    "cancelled": 0,
    "failed": 0,
    "passed": 0,
    "error": 0,
    "left": 0,
}


async def unpublished(bench: ApiBench, count: int = 1) -> None:
    bench.publisher.says = "refused"
    for number in range(count):
        await bench.accept(run_id=f"r{number + 1}")
    bench.publisher.says = "ok"
    bench.publisher.tries = 0


async def test_a_tick_without_due_runs_does_nothing() -> None:
    bench = ApiBench()
    await bench.accept()
    await bench.clock.advance(3600)
    assert await bench.sweeper.tick() == NOTHING


async def test_a_republished_run_is_signed_afresh() -> None:
    bench = ApiBench()
    await unpublished(bench)
    await bench.clock.advance(80_000)
    assert await bench.sweeper.tick() == {**NOTHING, "published": 1}
    claims = bench.verifier.verify(bench.publisher.messages[0][1]["payload"], bench.clock.now())
    assert claims.issued_at == bench.clock.now()


@pytest.mark.parametrize("mode", [RunMode.SYNC, RunMode.STREAM])
async def test_a_run_whose_caller_waited_expires_when_nobody_reports_it(mode: RunMode) -> None:
    """An API that was killed right after the record was made leaves a run that nobody works."""
    bench = ApiBench()
    wanted = replace(request(), mode=mode, timeout=timedelta(seconds=100))
    await bench.submissions.begin(wanted, "shop", "lease", timedelta(seconds=150))
    await bench.clock.advance(159)
    assert await bench.sweeper.tick() == NOTHING, "its timeout was 100 s, and a report may take a minute more"
    await bench.clock.advance(1)
    assert await bench.sweeper.tick() == {**NOTHING, "expired": 1}
    record = await bench.record()
    assert (record.failure_class, record.status_code) == (FailureClass.FRAMEWORK_TIMEOUT, 504)
    assert bench.publisher.messages == []


async def test_a_run_whose_lease_is_renewed_outlives_its_timeout() -> None:
    bench = ApiBench()
    wanted = replace(request(), mode=RunMode.SYNC, timeout=timedelta(seconds=100))
    await bench.submissions.begin(wanted, "shop", "lease", timedelta(seconds=150))
    await bench.clock.advance(140)
    assert (await bench.lease("lease"))["lease_acquired"]
    await bench.clock.advance(149)
    assert await bench.sweeper.tick() == NOTHING
    assert (await bench.progress("lease", "completed"))["accepted"]


async def test_two_ticks_at_once_publish_a_run_once() -> None:
    bench = ApiBench()
    await unpublished(bench, 5)
    await bench.clock.advance(60)
    first, second = await asyncio.gather(bench.sweeper.tick(), bench.sweeper.tick())
    assert len(bench.publisher.messages) == 5
    assert first["published"] + second["published"] == 5


async def test_a_run_that_cannot_be_published_is_put_off_a_minute_and_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = ApiBench()
    await unpublished(bench, 3)
    await bench.clock.advance(60)
    monkeypatch.setattr(sweeper, "BATCH", 2)
    bench.publisher.says = "refused"
    assert (await bench.sweeper.tick())["not_published"] == 2
    bench.publisher.says = "ok"
    assert (await bench.sweeper.tick())["published"] == 1, "the third run is next, the first two are due in a minute"
    await bench.clock.advance(60)
    assert (await bench.sweeper.tick())["published"] == 2


async def test_a_batch_is_bounded_and_the_next_tick_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = ApiBench()
    await unpublished(bench, 5)
    await bench.clock.advance(60)
    monkeypatch.setattr(sweeper, "BATCH", 2)
    assert [(await bench.sweeper.tick())["published"] for _ in range(4)] == [2, 2, 1, 0]


async def test_a_tick_ends_within_its_minute_even_where_the_broker_hangs() -> None:
    bench = ApiBench()
    await unpublished(bench, 100)
    await bench.clock.advance(60)
    bench.publisher.says = "hangs"
    started = bench.clock.monotonic()
    counts = await bench.within(bench.sweeper.tick(), step=1)
    assert bench.clock.monotonic() - started < 60
    assert counts["not_published"] + counts["left"] == 100
    assert counts["left"] > 0


async def test_a_tick_begins_no_further_run_once_the_process_drains() -> None:
    bench = ApiBench()
    await unpublished(bench, 5)
    await bench.clock.advance(60)
    bench.draining.set()
    assert await bench.sweeper.tick() == {**NOTHING, "left": 5}


async def test_a_run_expires_when_nobody_worked_it_in_time() -> None:
    bench = ApiBench(max_queue_age=timedelta(hours=1))
    await bench.accept()
    await bench.clock.advance(3599)
    assert await bench.sweeper.tick() == NOTHING
    await bench.clock.advance(1)
    assert await bench.sweeper.tick() == {**NOTHING, "expired": 1}
    record = await bench.record()
    assert (record.state, record.status_code, record.failure_class) == (
        RunState.EXPIRED, 504, FailureClass.DISPATCH_ERROR,
    )  # fmt: skip
    assert await bench.sweeper.tick() == NOTHING


async def test_an_unpublished_run_past_its_age_expires_and_is_not_published() -> None:
    bench = ApiBench(max_queue_age=timedelta(hours=1))
    await unpublished(bench)
    await bench.clock.advance(3600)
    assert await bench.sweeper.tick() == {**NOTHING, "expired": 1}
    assert bench.publisher.messages == []


async def test_a_live_lease_keeps_a_run_past_its_age_and_a_lapsed_one_does_not() -> None:
    bench = ApiBench(max_queue_age=timedelta(hours=1))
    await bench.accept()
    await bench.clock.advance(3590)
    await bench.lease("a", last_failure_class="backpressure")
    await bench.clock.advance(149)
    assert await bench.sweeper.tick() == NOTHING
    await bench.clock.advance(1)
    assert await bench.sweeper.tick() == {**NOTHING, "expired": 1}
    assert (await bench.record()).failure_class is FailureClass.BACKPRESSURE


async def test_a_renewal_between_query_and_write_keeps_the_run() -> None:
    bench = ApiBench(max_queue_age=timedelta(hours=1))
    await bench.accept()
    await bench.clock.advance(3590)
    await bench.lease("a")
    await bench.clock.advance(150)

    async def renew() -> None:
        bench.documents.before.clear()
        await bench.lease("a")

    bench.documents.before[len(bench.documents.calls) + 1] = renew
    assert await bench.sweeper.tick() == {**NOTHING, "passed": 1}
    assert (await bench.record()).state is RunState.RUNNING


async def test_a_run_that_was_to_stop_is_cancelled_once_its_worker_is_gone() -> None:
    bench = ApiBench()
    await bench.accept()
    await bench.lease("a")
    await bench.cancel()
    assert await bench.sweeper.tick() == NOTHING
    await bench.clock.advance(150)
    assert await bench.sweeper.tick() == {**NOTHING, "cancelled": 1}


async def test_a_run_whose_payload_is_gone_fails_and_says_so() -> None:
    bench = ApiBench()
    await unpublished(bench)
    key = Key(names.RUN_PAYLOADS, "r1")
    document = await bench.store.get(key)
    assert document is not None
    await bench.store.commit([Delete(key, document.version)])
    await bench.clock.advance(60)
    assert await bench.sweeper.tick() == {**NOTHING, "failed": 1}
    assert "payload is gone" in str((await bench.record()).error)


async def test_a_record_that_cannot_be_read_keeps_no_other_waiting() -> None:
    bench = ApiBench()
    await unpublished(bench, 2)
    key = Key(names.RUNS, "r1")
    document = await bench.store.get(key)
    assert document is not None
    await bench.store.commit([Replace(key, {**document.data, "attempt": "x"}, document.version)])
    await bench.clock.advance(60)
    assert await bench.sweeper.tick() == {**NOTHING, "published": 1, "error": 1}


async def test_a_run_that_is_deleted_meanwhile_is_passed_over() -> None:
    bench = ApiBench()
    await unpublished(bench)
    await bench.clock.advance(60)
    key = Key(names.RUNS, "r1")

    async def delete() -> None:
        document = await bench.store.get(key)
        assert document is not None
        await bench.store.commit([Delete(key, document.version)])

    bench.documents.before[len(bench.documents.calls)] = delete
    assert await bench.sweeper.tick() == {**NOTHING, "passed": 1}


async def test_a_lost_answer_to_the_reservation_still_publishes_once() -> None:
    bench = ApiBench()
    await unpublished(bench)
    await bench.clock.advance(60)
    reservation = len(bench.documents.calls) + 1
    bench.documents.choose = lambda number, _kind, _writes: Fault.ANSWER_LOST if number == reservation else None
    assert (await bench.within(bench.sweeper.tick(), step=0.1))["published"] == 1
    assert len(bench.publisher.messages) == 1


async def test_a_store_that_cannot_be_queried_fails_the_tick_so_that_the_scheduler_tries_again() -> None:
    bench = ApiBench()
    await bench.store.close()
    with pytest.raises(StoreUnavailable):
        await bench.sweeper.tick()


async def test_what_a_tick_did_is_counted() -> None:
    bench = ApiBench()
    await unpublished(bench, 2)
    await bench.clock.advance(60)
    await bench.sweeper.tick()
    assert bench.metrics.registry.get_sample_value("swept_total", {"action": "published"}) == 2


async def test_an_ended_run_is_passed_over_by_the_query() -> None:
    bench = ApiBench()
    await bench.accept()
    await bench.cancel()
    await bench.clock.advance(30 * 86400)
    assert await bench.sweeper.tick() == NOTHING
