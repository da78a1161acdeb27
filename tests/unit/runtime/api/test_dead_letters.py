"""What the dead-letter topic and a replay do to runs and letters."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.api.run_store import Change
from runtime.contract import names
from runtime.contract.dead_letter import NATIVE_WRITER, DeadLetter
from runtime.contract.limits import DEAD_LETTER_PAYLOAD_BYTES
from runtime.contract.settings.words import Workload
from runtime.contract.states import FailureClass, RunMode, RunState
from runtime.ports.documents import Create, Delete, Key, Query, StoreUnavailable
from tests.support.api_bench import ApiBench
from tests.support.dead_pushes import SOURCE, dead_push
from tests.support.faulty_documents import Fault

NOT_JOBS = [b"", b"not json \x00\xff", b"123", b'{"v":1}', b'{"v":2,"job_id":"r1.1","payload":{}}']

FAULTS = [Fault.DOWN, Fault.REQUEST_LOST, Fault.ANSWER_LOST]


async def accepted() -> ApiBench:
    bench = ApiBench()
    await bench.accept()
    return bench


def job(bench: ApiBench, number: int = -1) -> dict[str, Any]:
    """A message that was published."""
    return bench.publisher.messages[number][1]


async def receive(bench: ApiBench, body: bytes) -> None:
    await bench.dead_letters.receive(body, Workload.EXECUTION)


async def letters(bench: ApiBench) -> list[tuple[str, DeadLetter]]:
    found, _ = await bench.letters.page(None, None, None, 100)
    return [(stored.id, stored.letter) for stored in found]


async def write_letter(bench: ApiBench, **changes: Any) -> str:
    """A letter of a worker for the message that was published last."""
    data = dead_push(job(bench))
    await receive(bench, data)
    ((id_, letter),) = await letters(bench)
    await bench.store.commit([(await stored(bench, id_)).become(replace(letter, **changes))])
    return id_


def sha(message: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(message).encode()).hexdigest()


async def stored(bench: ApiBench, letter_id: str) -> Any:
    found = await bench.letters.get(letter_id)
    assert found is not None
    return found


async def replay(bench: ApiBench, letter_id: str) -> RunRecord:
    return await bench.replays.replay(letter_id, "operator")


async def refused(bench: ApiBench, letter_id: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await replay(bench, letter_id)
    return raised.value


async def test_a_message_that_nobody_lived_to_settle_ends_its_run_with_a_letter_in_one_commit() -> None:
    bench = await accepted()
    before = len(bench.documents.calls)
    await receive(bench, dead_push(job(bench)))

    record = await bench.record()
    assert (record.state, record.failure_class, record.status_code) == ("dead_lettered", "retry_exhausted", 500)
    ((id_, letter),) = await letters(bench)
    assert (letter.run_id, letter.job_id, letter.app_id, letter.engine) == ("r1", "r1.1", "default", "flow")
    assert (letter.subscription, letter.delivery_attempt, letter.reason) == (SOURCE, 20, "broker_attempts_exhausted")
    assert (letter.worker, letter.spurious, letter.source) == (NATIVE_WRITER, False, "execution")
    assert bench.documents.calls[before:].count("commit") == 1
    payload = await bench.letters.payload(id_)
    assert payload is not None
    assert hashlib.sha256(payload.data).hexdigest() == letter.payload_sha256


async def test_the_same_push_and_a_second_copy_of_the_message_change_nothing() -> None:
    bench = await accepted()
    await receive(bench, dead_push(job(bench)))
    first = await letters(bench)
    for number in ("9001", "9002"):
        await bench.clock.advance(10)
        await receive(bench, dead_push(job(bench), message_id=number))
    assert await letters(bench) == first
    assert len((await bench.record()).history) == 3


async def test_a_live_lease_sends_the_letter_away_until_it_has_lapsed() -> None:
    bench = await accepted()
    await bench.lease("a", last_failure_class="activation_timeout")
    with pytest.raises(Problem) as raised:
        await receive(bench, dead_push(job(bench)))
    assert (raised.value.status, raised.value.code) == (503, "run_lease_live")
    assert await letters(bench) == []
    await bench.clock.advance(151)
    await receive(bench, dead_push(job(bench)))
    assert (await bench.record()).state is RunState.DEAD_LETTERED
    ((_, letter),) = await letters(bench)
    assert letter.last_failure_class is FailureClass.ACTIVATION_TIMEOUT, "what the last attempt said of itself"


@pytest.mark.parametrize("status", ["completed", "failed", "timeout"])
async def test_the_letter_of_a_run_that_ended_otherwise_is_kept_as_spurious(status: str) -> None:
    bench = await accepted()
    await bench.lease("a")
    await bench.progress("a", status)
    before = await bench.record()
    await receive(bench, dead_push(job(bench)))
    assert await bench.record() == before
    ((_, letter),) = await letters(bench)
    assert letter.spurious


@pytest.mark.parametrize("worked", [False, True], ids=["never taken", "taken and left"])
async def test_the_letter_of_a_run_that_expired_while_it_waited_is_not_spurious_and_replays_it(*, worked: bool) -> None:
    bench = await accepted()
    if worked:
        await bench.lease("a", last_failure_class="activation_timeout")
    await bench.clock.advance(90_000)
    assert (await bench.sweeper.tick())["expired"] == 1
    await receive(bench, dead_push(job(bench)))
    ((id_, letter),) = await letters(bench)
    assert ((await bench.record()).state, letter.spurious) == (RunState.EXPIRED, False)
    assert (await replay(bench, id_)).generation == 2


async def test_a_worker_s_letter_gives_the_cause_and_stays_the_only_one() -> None:
    bench = await accepted()
    data = dead_push(job(bench))
    ours = DeadLetter(
        source="execution", failure_class=FailureClass.RETRY_EXHAUSTED,
        last_failure_class=FailureClass.RESULT_STORE_ERROR, subscription=SOURCE, message_id="1001", run_id="r1",
        job_id="r1.1", error="no answer", payload_sha256=sha(job(bench)), failed_at=bench.clock.now(), worker="rev-1",
        published_at=datetime(2026, 1, 1, 0, 0, 0, 250400, tzinfo=UTC),
    )  # fmt: skip
    await bench.store.commit([Create(Key(names.DEAD_LETTERS, "a" * 64), ours.data())])
    await receive(bench, data)
    record = await bench.record()
    assert (record.state, record.error) == (RunState.DEAD_LETTERED, "no answer")
    assert record.last_failure_class is FailureClass.RESULT_STORE_ERROR
    assert await letters(bench) == [("a" * 64, ours)]


async def test_a_worker_s_letter_of_a_run_that_went_on_becomes_spurious() -> None:
    bench = await accepted()
    id_ = await write_letter(bench)
    await replay(bench, id_)
    replayed = await stored(bench, id_)
    await bench.store.commit([replayed.become(replace(replayed.letter, replayed_generation=None))])
    await receive(bench, dead_push(job(bench, 0)))
    ((_, letter),) = await letters(bench)
    assert letter.spurious
    assert (await bench.record()).generation == 2


@pytest.mark.parametrize("data", NOT_JOBS)
async def test_what_is_no_job_has_a_letter_with_its_exact_bytes(data: bytes) -> None:
    bench = ApiBench()
    await receive(bench, dead_push(data, run_id="r1", job_id="r1.1"))
    ((id_, letter),) = await letters(bench)
    assert letter.failure_class is FailureClass.MALFORMED_MESSAGE
    assert (letter.run_id, letter.job_id) == ("r1", "r1.1"), "as hints"
    payload = await bench.letters.payload(id_)
    assert payload is not None
    assert payload.data == data


async def test_data_that_is_too_large_to_keep_is_described() -> None:
    bench = ApiBench()
    await receive(bench, dead_push(b"x" * (DEAD_LETTER_PAYLOAD_BYTES + 1)))
    ((id_, letter),) = await letters(bench)
    assert (letter.has_payload, letter.payload_bytes) == (False, DEAD_LETTER_PAYLOAD_BYTES + 1)
    assert await bench.letters.payload(id_) is None


async def test_equal_data_published_at_another_time_is_another_message() -> None:
    bench = ApiBench()
    for second in range(3):
        await receive(bench, dead_push(b"x", published=f"2026-01-01T00:00:0{second}Z"))
    assert len(await letters(bench)) == 3


async def test_a_run_that_a_message_only_claims_to_be_of_is_left_alone() -> None:
    bench = await accepted()
    forged = job(bench) | {"payload": job(bench)["payload"] | {"engine": "other"}}
    await receive(bench, dead_push(forged, run_id="r1", job_id="r1.1"))
    assert (await bench.record()).state is RunState.DISPATCHING
    ((_, letter),) = await letters(bench)
    assert (letter.failure_class, letter.reason) == ("malformed_message", "job_payload_mismatch")


async def test_a_token_that_expired_while_its_letter_waited_still_speaks_for_its_run() -> None:
    bench = await accepted()
    await bench.clock.advance(25 * 3600)
    await receive(bench, dead_push(job(bench)))
    assert (await bench.record()).state is RunState.DEAD_LETTERED


async def test_a_message_of_a_run_that_is_gone_has_its_letter() -> None:
    bench = await accepted()
    other = ApiBench()
    await receive(other, dead_push(job(bench)))
    ((_, letter),) = await letters(other)
    assert (letter.run_id, letter.spurious) == ("r1", False)


async def test_a_push_that_is_none_is_refused() -> None:
    with pytest.raises(Problem) as raised:
        await receive(ApiBench(), b"{}")
    assert (raised.value.status, raised.value.code) == (400, "invalid_push")


async def test_a_message_put_into_the_topic_by_hand_has_a_letter_under_its_own_id() -> None:
    bench = ApiBench()
    await receive(bench, dead_push(b"x", source="!"))
    ((_, letter),) = await letters(bench)
    assert letter.subscription.endswith("/execution-dead-letters-push")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", range(3))
async def test_a_store_that_fails_at_any_call_leaves_one_letter_and_one_end(fault: Fault, call: int) -> None:
    bench = await accepted()
    first = len(bench.documents.calls)
    bench.documents.choose = lambda number, _kind, _writes: fault if number == first + call else None
    with capture_logs() as lines:
        for _ in range(2):
            try:
                await bench.within(receive(bench, dead_push(job(bench))))
            except StoreUnavailable:
                continue
    assert len(await letters(bench)) == 1
    assert names.DEAD_LETTERED in {line["event"] for line in lines if line["log_level"] == "error"}, (
        "told at least once"
    )
    assert [entry.state for entry in (await bench.record()).history].count(RunState.DEAD_LETTERED) == 1


async def test_a_replay_is_signed_afresh_from_the_record_and_runs_again() -> None:
    bench = await accepted()
    await bench.lease("a")
    await bench.events("a", 0, 1)
    await bench.clock.advance(151)
    id_ = await write_letter(bench)
    record = await replay(bench, id_)

    assert (record.generation, record.job_id, record.state) == (2, "r1.2", RunState.DISPATCHING)
    message = job(bench)
    claims = bench.verifier.verify(message["payload"], bench.clock.now())
    assert (claims.job_id, message["job_id"]) == ("r1.2", "r1.2")
    assert message["payload"]["spec"] == job(bench, 0)["payload"]["spec"]
    assert (record.failure_class, record.error, record.status_code, record.completed_at) == (None, None, None, None)
    assert (record.attempt, record.next_sequence, record.has_result) == (1, 2, False)
    assert record.queue_deadline > (await bench.record()).created_at
    letter = (await stored(bench, id_)).letter
    assert (letter.replayed_generation, letter.replayed_by, letter.replayed_at) == (2, "operator", bench.clock.now())


async def test_a_letter_is_replayed_once_and_says_as_what() -> None:
    bench = await accepted()
    id_ = await write_letter(bench)
    await replay(bench, id_)
    problem = await refused(bench, id_)
    assert (problem.status, problem.code, problem.members["generation"]) == (409, "already_replayed", 2)
    assert len(bench.publisher.messages) == 2


async def test_an_unpublished_replay_is_published_by_the_sweeper() -> None:
    bench = await accepted()
    id_ = await write_letter(bench)
    bench.publisher.says = "refused"
    assert (await replay(bench, id_)).state is RunState.QUEUED
    bench.publisher.says = "ok"
    await bench.clock.advance(61)
    await bench.sweeper.tick()
    assert (await bench.record()).state is RunState.DISPATCHING
    assert job(bench)["job_id"] == "r1.2"


@pytest.mark.parametrize(("status", "state"), [("completed", "succeeded"), ("cancelled", "cancelled")])
async def test_a_run_that_succeeded_or_was_cancelled_is_not_replayed(status: str, state: str) -> None:
    bench = await accepted()
    await bench.lease("a")
    await bench.progress("a", status)
    id_ = await write_letter(bench)
    problem = await refused(bench, id_)
    assert (problem.status, problem.code, problem.members["state"]) == (409, "run_not_replayable", state)


@pytest.mark.parametrize("status", ["failed", "timeout"])
async def test_a_run_that_failed_or_expired_is_replayed_from_its_spurious_letter(status: str) -> None:
    bench = await accepted()
    await bench.lease("a")
    await bench.progress("a", status)
    assert (await replay(bench, await write_letter(bench))).generation == 2


async def test_an_open_run_and_an_older_letter_are_not_replayed() -> None:
    bench = await accepted()
    await receive(bench, dead_push(b"x", run_id="r1", job_id="r1.1"))
    ((open_letter, _),) = await letters(bench)
    assert (await refused(bench, open_letter)).code == "run_not_replayable"
    await receive(bench, dead_push(job(bench)))
    (dead,) = [id_ for id_, letter in await letters(bench) if id_ != open_letter]
    await replay(bench, dead)
    problem = await refused(bench, open_letter)
    assert (problem.code, problem.members["generation"]) == ("letter_superseded", 2)


async def test_a_run_whose_caller_waited_for_it_is_not_replayed() -> None:
    bench = await accepted()
    id_ = await write_letter(bench)
    await bench.runs.change("r1", lambda record, _: Change(None, structs.replace(record, mode=RunMode.SYNC)))
    assert (await refused(bench, id_)).code == "run_not_replayable"


@pytest.mark.parametrize("run_id", [None, "a/b", ".."])
async def test_a_letter_that_names_no_run_is_not_replayed(run_id: str | None) -> None:
    bench = await accepted()
    assert (await refused(bench, await write_letter(bench, run_id=run_id))).code == "not_replayable"


async def test_a_run_whose_payload_is_gone_is_not_replayed() -> None:
    bench = await accepted()
    id_ = await write_letter(bench)
    (payload,) = await bench.store.query(Query(names.RUN_PAYLOADS))
    await bench.store.commit([Delete(payload.key, payload.version)])
    assert (await refused(bench, id_)).code == "payload_gone"


async def test_an_unknown_letter_is_a_404() -> None:
    problem = await refused(ApiBench(), "b" * 64)
    assert (problem.status, problem.code) == (404, "dead_letter_not_found")
