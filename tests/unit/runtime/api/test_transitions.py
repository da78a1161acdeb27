"""The moves of a run: which are made, which are refused, and what each leaves behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.run_record import HISTORY_ENTRIES, PUBLISH_GRACE, RunRecord, new_record, read_record
from runtime.api.transitions import (
    Ending,
    Holder,
    IllegalMove,
    Note,
    Ruling,
    cancel,
    dead_letter,
    fail,
    finish,
    give_up,
    mark_published,
    record_events,
    replay,
    reserve_publication,
    take_lease,
)
from runtime.contract.states import STATE_OF_PROGRESS, TERMINAL, FailureClass, ProgressStatus, RunMode, RunState

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=150)
A, B = (Holder(job_id="r1.1", lease_token=token) for token in ("a", "b"))
NOTHING = Note()


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def queued() -> RunRecord:
    return new_record(
        run_id="r1",
        submission_id="s",
        mode=RunMode.ASYNC,
        app_id="default",
        user_id="shop",
        engine="flow",
        request_hash="0" * 64,
        timeout=timedelta(seconds=60),
        max_attempts=3,
        labels={"team": "a"},
        max_queue_age=timedelta(hours=1),
        at=T0,
    )


def leased(holder: Holder = A, now: datetime = T0, before: RunRecord | None = None) -> RunRecord:
    ruling, record = take_lease(before or queued(), holder, LEASE, NOTHING, now)
    assert ruling is Ruling.RECORDED
    assert record is not None
    return record


def ended(record: RunRecord, status: ProgressStatus = ProgressStatus.COMPLETED, holder: Holder = A) -> RunRecord:
    ruling, after = finish(record, holder, Ending(status=status), at(10))
    assert ruling is Ruling.RECORDED
    assert after is not None
    return after


def test_a_stored_record_reads_back_equal_and_is_in_types_that_every_store_takes() -> None:
    record = msgspec.structs.replace(ended(leased()), error="x", last_failure_class=FailureClass.BACKPRESSURE)
    data = record.document(at(99))
    assert read_record(data) == record
    assert data["expires_at_ts"] == at(99)
    assert {type(value) for value in data.values()} <= {str, int, bool, list, dict, datetime, type(None)}
    assert "lease_token='a'" not in repr(record), "a lease token is a credential"


def test_a_run_is_due_for_the_sweeper_when_it_was_not_published_in_time() -> None:
    record = queued()
    assert record.sweep_at == T0 + PUBLISH_GRACE
    published = mark_published(record, "r1.1", at(1))
    assert published is not None
    assert (published.state, published.dispatched_at) == (RunState.DISPATCHING, at(1))
    assert published.sweep_at == published.queue_deadline


def test_an_ended_run_is_never_due() -> None:
    assert "sweep_at" not in ended(leased()).document(T0)


@pytest.mark.parametrize("job_id", ["r1.2", "r1.0"])
def test_the_mark_of_another_generation_changes_nothing(job_id: str) -> None:
    assert mark_published(queued(), job_id, T0) is None


def test_a_worker_that_was_faster_than_the_mark_wins() -> None:
    running = leased()
    assert running.published
    assert mark_published(running, "r1.1", at(1)) is None


def test_a_publication_is_reserved_only_when_it_is_due() -> None:
    record = queued()
    assert reserve_publication(record, at(59)) is None
    reserved = reserve_publication(record, at(60))
    assert reserved is not None
    assert reserved.publish_after == at(120)
    assert reserve_publication(record, record.queue_deadline) is None, "then it is given up instead"


def test_a_free_lease_begins_an_attempt() -> None:
    record = leased(now=at(5))
    assert (record.state, record.attempt, record.started_at, record.lease_token) == (RunState.RUNNING, 1, at(5), "a")
    assert record.lease_expires_at == at(155)


def test_the_same_token_renews_without_a_new_attempt_even_after_a_lapse() -> None:
    for now in (at(60), at(1000)):
        ruling, record = take_lease(leased(), A, LEASE, NOTHING, now)
        assert ruling is Ruling.RECORDED
        assert record is not None
        assert (record.attempt, record.lease_expires_at) == (1, now + LEASE)


def test_a_live_lease_keeps_others_out_until_the_very_moment_it_lapses() -> None:
    assert take_lease(leased(), B, LEASE, NOTHING, at(149.999)) == (Ruling.BUSY, None)
    ruling, record = take_lease(leased(), B, LEASE, NOTHING, at(150))
    assert ruling is Ruling.RECORDED
    assert record is not None
    assert (record.attempt, record.lease_token) == (2, "b")


def test_a_lease_of_no_length_gives_it_back() -> None:
    _, given_back = take_lease(leased(), A, timedelta(0), NOTHING, at(10))
    assert given_back is not None
    assert take_lease(given_back, B, LEASE, NOTHING, at(10))[0] is Ruling.RECORDED


def test_a_lease_of_an_older_generation_is_refused_as_ended() -> None:
    assert take_lease(queued(), Holder(job_id="r1.0", lease_token="a"), LEASE, NOTHING, T0) == (Ruling.ENDED, None)


def test_what_an_attempt_says_is_kept_until_the_next_attempt() -> None:
    note = Note(progress=40, current_step="load", last_failure_class=FailureClass.BACKPRESSURE)
    _, noted = take_lease(leased(), A, LEASE, note, at(1))
    assert noted is not None
    assert (noted.progress, noted.current_step) == (40, "load")
    _, renewed = take_lease(noted, A, LEASE, NOTHING, at(2))
    assert renewed is not None
    assert renewed.progress == 40
    second = leased(B, at(500), renewed)
    assert (second.progress, second.last_failure_class) == (None, FailureClass.BACKPRESSURE)


@pytest.mark.parametrize(
    ("first", "count", "ruling", "next_sequence"),
    [
        (0, 3, Ruling.REPEATED, None),
        (3, 2, Ruling.REPEATED, None),
        (3, 4, Ruling.RECORDED, 7),
        (5, 1, Ruling.RECORDED, 6),
        (6, 1, Ruling.GAP, None),
    ],
)
def test_events_go_on_from_the_next_sequence(first: int, count: int, ruling: Ruling, next_sequence: int | None) -> None:
    record = msgspec.structs.replace(leased(), next_sequence=5)
    said, after = record_events(record, A, first, count)
    assert said is ruling
    assert (None if after is None else after.next_sequence) == next_sequence


def test_events_of_another_lease_are_refused_even_when_they_were_recorded() -> None:
    record = msgspec.structs.replace(leased(), next_sequence=5)
    assert record_events(record, B, 0, 1) == (Ruling.NOT_CURRENT, None)


def test_after_the_end_only_repeated_events_are_taken() -> None:
    record = ended(msgspec.structs.replace(leased(), next_sequence=5))
    assert record_events(record, A, 4, 1) == (Ruling.REPEATED, None)
    assert record_events(record, A, 5, 1) == (Ruling.NOT_CURRENT, None)


@pytest.mark.parametrize(
    ("status", "state", "code", "failure_class"),
    [
        (ProgressStatus.COMPLETED, RunState.SUCCEEDED, 200, None),
        (ProgressStatus.FAILED, RunState.FAILED, 502, FailureClass.FRAMEWORK_ERROR),
        (ProgressStatus.TIMEOUT, RunState.EXPIRED, 504, FailureClass.FRAMEWORK_TIMEOUT),
        (ProgressStatus.CANCELLED, RunState.CANCELLED, 499, None),
        (ProgressStatus.DEAD_LETTERED, RunState.DEAD_LETTERED, 500, FailureClass.RETRY_EXHAUSTED),
    ],
)
def test_every_ending_has_its_state_status_code_and_class(
    status: ProgressStatus, state: RunState, code: int, failure_class: FailureClass | None
) -> None:
    record = ended(leased(), status)
    assert (record.state, record.status_code, record.failure_class) == (state, code, failure_class)
    assert record.completed_at == at(10)
    assert record.lease_expires_at is None


def test_an_engine_that_is_not_there_answers_503_and_user_code_keeps_its_own_status() -> None:
    for ending, code in (
        (Ending(status=ProgressStatus.FAILED, failure_class=FailureClass.NO_WORKER_TEMPLATE), 503),
        (Ending(status=ProgressStatus.FAILED, status_code=422), 422),
    ):
        _, record = finish(leased(), A, ending, at(1))
        assert record is not None
        assert record.status_code == code


def test_the_true_cause_stands_beside_an_exhausted_run() -> None:
    ending = Ending(status=ProgressStatus.DEAD_LETTERED, last_failure_class=FailureClass.DISPATCH_ERROR)
    _, record = finish(leased(), A, ending, at(1))
    assert record is not None
    assert (record.failure_class, record.last_failure_class) == (
        FailureClass.RETRY_EXHAUSTED,
        FailureClass.DISPATCH_ERROR,
    )


def test_work_that_ends_after_its_lease_lapsed_counts_until_another_takes_the_lease() -> None:
    late = Ending(status=ProgressStatus.COMPLETED)
    assert finish(leased(), A, late, at(9999))[0] is Ruling.RECORDED
    assert finish(leased(B, at(500), leased()), A, late, at(501)) == (Ruling.NOT_CURRENT, None)


def test_only_a_dead_letter_ends_a_run_without_its_lease_and_only_a_free_one() -> None:
    dead = Ending(status=ProgressStatus.DEAD_LETTERED)
    assert finish(leased(), B, dead, at(10)) == (Ruling.BUSY, None)
    for record in (queued(), leased()):
        ruling, after = finish(record, B, dead, at(500))
        assert ruling is Ruling.RECORDED
        assert after is not None
        assert after.state is RunState.DEAD_LETTERED
    assert finish(queued(), B, Ending(status=ProgressStatus.FAILED), at(500)) == (Ruling.NOT_CURRENT, None)


@pytest.mark.parametrize("first", [status for status in ProgressStatus if status is not ProgressStatus.RUNNING])
@pytest.mark.parametrize("second", [status for status in ProgressStatus if status is not ProgressStatus.RUNNING])
def test_the_first_ending_stays_and_only_its_repetition_is_accepted(
    first: ProgressStatus, second: ProgressStatus
) -> None:
    record = ended(leased(), first)
    ruling, after = finish(record, A, Ending(status=second), at(20))
    assert after is None
    assert ruling is (Ruling.REPEATED if first is second else Ruling.ENDED)
    assert finish(record, B, Ending(status=second), at(20)) == (Ruling.ENDED, None)


def test_a_run_that_was_not_begun_is_cancelled_at_once() -> None:
    for record in (queued(), mark_published(queued(), "r1.1", T0)):
        assert record is not None
        after = cancel(record, at(3))
        assert after is not None
        assert (after.state, after.status_code, after.completed_at) == (RunState.CANCELLED, 499, at(3))


def test_a_running_run_is_asked_to_stop_once() -> None:
    asked = cancel(leased(), at(3))
    assert asked is not None
    assert (asked.state, asked.cancel_requested) == (RunState.RUNNING, True)
    assert cancel(asked, at(4)) is None
    assert cancel(ended(asked), at(11)) is None


def test_a_run_is_given_up_at_its_queue_deadline_and_not_while_it_is_held() -> None:
    deadline = queued().queue_deadline
    assert give_up(queued(), deadline - timedelta(microseconds=1)) is None
    expired = give_up(queued(), deadline)
    assert expired is not None
    assert (expired.state, expired.status_code, expired.failure_class) == (
        RunState.EXPIRED, 504, FailureClass.DISPATCH_ERROR,
    )  # fmt: skip
    held = leased(A, deadline - timedelta(seconds=1))
    assert give_up(held, deadline) is None
    assert held.sweep_at == held.lease_expires_at, "it is due again when the lease lapses"
    assert give_up(held, deadline + LEASE) is not None


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (FailureClass.BACKPRESSURE, FailureClass.BACKPRESSURE),
        (FailureClass.ACTIVATION_TIMEOUT, FailureClass.ACTIVATION_TIMEOUT),
        (FailureClass.FRAMEWORK_ERROR, FailureClass.DISPATCH_ERROR),
        (None, FailureClass.DISPATCH_ERROR),
    ],
)
def test_an_expired_run_shows_the_last_cause_that_a_retry_could_have_met(
    last: FailureClass | None, shown: FailureClass
) -> None:
    record = msgspec.structs.replace(queued(), last_failure_class=last)
    expired = give_up(record, record.queue_deadline)
    assert expired is not None
    assert expired.failure_class is shown


def test_a_run_that_was_to_stop_is_cancelled_when_its_worker_is_gone() -> None:
    asked = cancel(leased(), at(3))
    assert asked is not None
    assert asked.sweep_at == asked.lease_expires_at
    assert give_up(asked, at(149)) is None
    after = give_up(asked, at(150))
    assert after is not None
    assert after.state is RunState.CANCELLED


def test_a_run_without_its_payload_fails_once() -> None:
    failed = fail(queued(), FailureClass.DISPATCH_ERROR, "gone", at(1))
    assert failed is not None
    assert (failed.state, failed.error) == (RunState.FAILED, "gone")
    assert fail(failed, FailureClass.DISPATCH_ERROR, "gone", at(2)) is None


def test_the_history_is_bounded_and_keeps_its_first_and_newest_entries() -> None:
    record = queued()
    for number in range(100):
        record = leased(Holder(job_id="r1.1", lease_token=f"t{number}"), at(1000 * number), record)
    assert len(record.history) == HISTORY_ENTRIES
    assert record.history[0].state is RunState.QUEUED
    assert [entry.attempt for entry in record.history[-3:]] == [98, 99, 100]


def test_documents_of_a_run_outlive_it() -> None:
    week = timedelta(days=7)
    record = queued()
    assert record.kept_until(T0, week) == record.queue_deadline + week
    assert ended(leased()).kept_until(at(10), week) == at(10) + week
    assert record.kept_until(T0, week) >= ended(leased()).kept_until(at(10), week)


def test_a_move_that_the_table_does_not_have_is_a_fault_of_the_program() -> None:
    record = msgspec.structs.replace(leased(), state=RunState.QUEUED)
    with pytest.raises(IllegalMove, match="r1 cannot go from queued to succeeded"):
        finish(record, A, Ending(status=ProgressStatus.COMPLETED), at(1))


@given(st.sampled_from(sorted(TERMINAL)), st.sampled_from(list(ProgressStatus)), st.integers(0, 10**6))
def test_nothing_but_a_replay_moves_an_ended_run(state: RunState, status: ProgressStatus, seconds: int) -> None:
    by_state = {STATE_OF_PROGRESS[status]: status for status in ProgressStatus}
    record = ended(leased(), by_state[state])
    now = at(seconds)
    moves = [
        mark_published(record, "r1.1", now),
        reserve_publication(record, now),
        take_lease(record, A, LEASE, NOTHING, now)[1],
        take_lease(record, B, LEASE, NOTHING, now)[1],
        record_events(record, A, 0, 1)[1],
        cancel(record, now),
        give_up(record, now),
        fail(record, FailureClass.DISPATCH_ERROR, "x", now),
    ]
    if status is not ProgressStatus.RUNNING:
        moves += [finish(record, holder, Ending(status=status), now)[1] for holder in (A, B)]
    assert moves == [None] * len(moves)


def test_a_message_that_is_given_up_ends_its_run_where_no_lease_is_live() -> None:
    lost = FailureClass.RETRY_EXHAUSTED
    assert dead_letter(leased(), "r1.1", lost, None, "x", at(149)) == (Ruling.BUSY, None)
    ruling, after = dead_letter(leased(), "r1.1", lost, FailureClass.BACKPRESSURE, "x", at(150))
    assert ruling is Ruling.RECORDED
    assert after is not None
    assert (after.state, after.status_code, after.error) == (RunState.DEAD_LETTERED, 500, "x")
    assert (after.failure_class, after.last_failure_class) == (lost, FailureClass.BACKPRESSURE)
    assert after.sweep_at is None
    assert dead_letter(after, "r1.1", lost, None, "y", at(160)) == (Ruling.ENDED, None)
    assert dead_letter(leased(), "r1.0", lost, None, "x", at(150)) == (Ruling.ENDED, None)


@pytest.mark.parametrize("status", [ProgressStatus.DEAD_LETTERED, ProgressStatus.FAILED, ProgressStatus.TIMEOUT])
def test_a_replay_begins_the_next_generation_and_leaves_nothing_of_the_last(status: ProgressStatus) -> None:
    before = ended(msgspec.structs.replace(leased(), cancel_requested=True, next_sequence=7, progress=5.0), status)
    after = replay(before, timedelta(hours=2), at(100))
    fresh = queued()
    assert after == msgspec.structs.replace(
        fresh,
        generation=2,
        job_id="r1.2",
        queued_at=at(100),
        queue_deadline=at(7300),
        publish_after=at(100) + PUBLISH_GRACE,
        attempt=1,
        next_sequence=7,
        history=after.history,
    )
    assert [(entry.generation, entry.state) for entry in after.history][-2:] == [(1, before.state), (2, "queued")]
    assert take_lease(after, A, LEASE, NOTHING, at(101)) == (Ruling.ENDED, None), "the old job's token is over"


@pytest.mark.parametrize("status", [None, ProgressStatus.COMPLETED, ProgressStatus.CANCELLED])
def test_an_open_a_succeeded_and_a_cancelled_run_are_not_replayed(status: ProgressStatus | None) -> None:
    record = leased() if status is None else ended(leased(), status)
    with pytest.raises(IllegalMove):
        replay(record, timedelta(hours=1), at(20))
