"""Accepting runs: recorded first, published at once or by the next ticks, and once for each id."""

from __future__ import annotations

import asyncio
import json

import pytest

from runtime.api.problem import Problem
from runtime.contract import names
from runtime.contract.states import RunState
from tests.support.api_bench import BASE_URL, FLOW, TOPIC, ApiBench, request
from tests.support.faulty_documents import Fault


async def test_an_accepted_run_is_recorded_signed_and_published() -> None:
    bench = ApiBench()
    record = await bench.accept(labels={"team": "a"})
    assert (record.state, record.published, record.user_id) == (RunState.DISPATCHING, True, "shop")
    ((topic, message, attributes),) = bench.publisher.messages
    assert (topic, attributes) == (TOPIC, {"run_id": "r1", "job_id": "r1.1"})
    assert (message["v"], message["job_id"]) == (1, "r1.1")
    payload = dict(message["payload"])
    claims = bench.verifier.verify(payload, bench.clock.now())
    assert (claims.subject, claims.job_id, claims.callback_url) == ("shop", "r1.1", BASE_URL)
    payload.pop("executor_jwt")
    assert payload == {
        "job_id": "r1.1",
        "run_id": "r1",
        "app_id": "default",
        "user_id": "shop",
        "engine": "flow",
        "spec": FLOW,
        "payload": {"n": 1},
        "timeout_ms": 540_000,
        "max_attempts": 3,
        "execution_mode": "async",
        "callback_url": BASE_URL,
    }


async def test_an_id_is_made_for_a_run_that_brings_none() -> None:
    bench = ApiBench()
    record = await bench.accept(run_id=None)
    assert record.run_id.startswith("run-")
    assert len(record.run_id) == 36


@pytest.mark.parametrize("number", [1e16, 1.5e300, -0.0, 123456789.25])
async def test_numbers_that_change_their_look_in_canonical_form_can_still_be_signed_and_verified(number: float) -> None:
    bench = ApiBench()
    await bench.accept(input={"x": number})
    message = json.loads(json.dumps(bench.publisher.messages[0][1]))
    assert message["payload"]["payload"] == {"x": number}
    bench.verifier.verify(message["payload"], bench.clock.now())


@pytest.mark.parametrize("says", ["unavailable", "refused", "broken", "hangs"])
async def test_a_run_that_cannot_be_published_is_accepted_and_published_once_by_the_tick(says: str) -> None:
    bench = ApiBench()
    bench.publisher.says = says
    started = bench.clock.monotonic()
    record = await bench.within(bench.accept(), step=0.1)
    assert record.state is RunState.QUEUED
    assert bench.clock.monotonic() - started <= 12, "a caller does not wait for a broker that hangs"
    assert bench.publisher.messages == []
    bench.publisher.says = "ok"
    assert (await bench.sweeper.tick())["published"] == 0, "a minute is given to the first publication"
    await bench.clock.advance(60)
    assert (await bench.sweeper.tick())["published"] == 1
    await bench.clock.advance(600)
    assert (await bench.sweeper.tick())["published"] == 0
    assert len(bench.publisher.messages) == 1
    assert (await bench.record()).state is RunState.DISPATCHING


async def test_a_passing_failure_of_the_broker_is_tried_again_at_once() -> None:
    bench = ApiBench()
    bench.publisher.says = "unavailable"
    accepting = asyncio.create_task(bench.accept())
    await bench.clock.advance(0.1)
    bench.publisher.says = "ok"
    await bench.clock.advance(0.1)
    assert (await accepting).state is RunState.DISPATCHING
    assert bench.publisher.tries == 2


async def test_a_run_is_published_even_where_that_cannot_be_marked() -> None:
    bench = ApiBench()
    # Call 0 records the run; every later call is the mark's.
    bench.documents.choose = lambda number, _kind, _writes: Fault.REQUEST_LOST if number else None
    record = await bench.within(bench.accept(), step=0.2)
    assert len(bench.publisher.messages) == 1
    assert record.state is RunState.QUEUED
    bench.documents.choose = lambda _number, _kind, _writes: None
    await bench.clock.advance(60)
    await bench.sweeper.tick()
    assert len(bench.publisher.messages) == 2, "a second publication parks on the lease; a lost one would be a lost run"
    assert (await bench.record()).state is RunState.DISPATCHING


async def test_a_crash_between_record_and_publication_is_made_good_by_the_tick() -> None:
    bench = ApiBench()
    bench.publisher.says = "hangs"
    dying = asyncio.create_task(bench.accept())
    await bench.clock.advance(1)
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    bench.publisher.says = "ok"
    await bench.clock.advance(60)
    assert (await bench.sweeper.tick())["published"] == 1
    assert len(bench.publisher.messages) == 1


async def test_a_repeated_request_is_given_the_first_run() -> None:
    bench = ApiBench()
    first = await bench.submissions.submit(request(), "shop")
    second = await bench.submissions.submit(request(), "shop")
    assert (first.duplicate, second.duplicate) == (False, True)
    assert second.record == first.record
    assert len(bench.publisher.messages) == 1


async def test_an_id_of_another_request_is_refused() -> None:
    bench = ApiBench()
    await bench.accept()
    with pytest.raises(Problem) as caught:
        await bench.accept(input="other")
    assert (caught.value.status, caught.value.code) == (409, "run_id_conflict")
    assert len(bench.publisher.messages) == 1


async def test_of_two_equal_requests_at_once_one_is_new() -> None:
    bench = ApiBench()
    done = await asyncio.gather(*(bench.submissions.submit(request(), "shop") for _ in range(4)))
    assert sorted(submitted.duplicate for submitted in done) == [False, True, True, True]
    assert len(bench.publisher.messages) == 1


async def test_an_answer_of_the_store_that_was_lost_makes_no_duplicate_and_no_refusal() -> None:
    bench = ApiBench()
    bench.documents.at(_0=Fault.ANSWER_LOST)
    done = await bench.within(bench.submissions.submit(request(run_id=None), "shop"), step=0.1)
    assert not done.duplicate
    assert len(bench.publisher.messages) == 1


async def test_a_refusal_for_want_of_the_store_names_the_id_to_ask_with_again() -> None:
    bench = ApiBench()
    bench.documents.choose = lambda _number, _kind, _writes: Fault.REQUEST_LOST
    with pytest.raises(Problem) as caught:
        await bench.within(bench.submissions.submit(request(run_id=None), "shop"), step=0.2)
    assert (caught.value.status, caught.value.code) == (503, "store_unavailable")
    assert str(caught.value.members["run_id"]).startswith("run-")
    assert await bench.everything() == {}
    assert bench.publisher.messages == []


async def test_publications_are_counted_by_result() -> None:
    bench = ApiBench()
    await bench.accept()
    bench.publisher.says = "refused"
    await bench.accept(run_id="r2")
    counts = [
        bench.metrics.registry.get_sample_value("published_total", {"result": result})
        for result in ("published", "refused")
    ]
    assert counts == [1, 1]
    assert (await bench.everything())[names.RUNS] == ["r1", "r2"]
