"""Writes that share a request that fails, hangs or is given up: each hears of its own fate, none waits in vain."""

from __future__ import annotations

import asyncio

import pytest
from google.rpc.code_pb2 import ABORTED, OK
from grpc import StatusCode
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.adapters.firestore_batches import (
    LANES,
    WAIT_SECONDS,
)
from runtime.adapters.grpc_calls import CallFailed
from runtime.ports.documents import (
    Create,
    Key,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
)
from runtime.ports.tokens import TokenUnavailable
from tests.support.held_firestore import Store, committed, documents_of, turn, written


async def test_a_batch_that_nobody_answers_for_leaves_each_of_its_writes_unclear(store: Store) -> None:
    later = await store.send("a", "b")
    store.calls.batches[0][1].set_exception(CallFailed(StatusCode.UNAVAILABLE, "gone"))
    seen = await asyncio.gather(*later, return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) and error.unclear for error in seen), seen
    assert seen[0] is not seen[1]
    await store.end()


async def test_without_a_token_a_batch_has_certainly_written_nothing(store: Store) -> None:
    later = await store.send("a", "b")
    store.calls.batches[0][1].set_exception(TokenUnavailable("no token today"))
    seen = await asyncio.gather(*later, return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) and not error.unclear for error in seen), seen
    await store.end()


async def test_a_write_that_a_batch_aborted_is_sent_again_without_the_others() -> None:
    store = Store(retries=2)
    taken, aborted = await store.send("a", "b")
    store.calls.batches[0][1].set_result(written(OK, ABORTED))
    assert await taken == ["10.000000000"]
    await turn()
    request, answer = store.calls.commits[-1]
    assert documents_of(request) == ["b"]
    answer.set_result(committed(7))
    assert await aborted == ["7.000000000"]
    await store.end()


@pytest.mark.parametrize("refusal", [StatusCode.UNIMPLEMENTED, StatusCode.PERMISSION_DENIED])
async def test_where_batches_are_denied_and_commits_are_not_every_write_goes_by_itself_from_then_on(
    store: Store, refusal: StatusCode
) -> None:
    later = await store.send("a", "b")
    waiting = store.create("c")
    await turn()
    store.calls.batches[0][1].set_exception(CallFailed(refusal, "not here"))
    await turn()
    alone = store.calls.commits[LANES:]
    assert [documents_of(request) for request, _ in alone] == [["a"], ["b"]]
    with capture_logs() as lines:
        for _, answer in alone:
            answer.set_result(committed())
        await asyncio.gather(*later)
        await turn()
    assert [line["event"] for line in lines] == ["batch_write_refused"]
    at_once = store.create("d")
    await turn()
    alone = store.calls.commits[LANES + 2 :]
    assert [documents_of(request) for request, _ in alone] == [["c"], ["d"]]
    for _, answer in alone:
        answer.set_result(committed())
    await asyncio.gather(waiting, at_once)
    assert len(store.calls.batches) == 1
    await store.end()


async def test_a_database_that_denies_everything_is_told_to_each_and_says_nothing_of_batches(store: Store) -> None:
    later = await store.send("a", "b")
    with capture_logs() as lines:
        store.calls.batches[0][1].set_exception(CallFailed(StatusCode.PERMISSION_DENIED, "not you"))
        await turn()
        for _, answer in store.calls.commits[LANES:]:
            answer.set_exception(CallFailed(StatusCode.PERMISSION_DENIED, "not you"))
        seen = await asyncio.gather(*later, return_exceptions=True)
        await turn()
    assert all(isinstance(error, StoreMisconfigured) for error in seen), seen
    assert lines == []
    await store.end()


async def test_an_unfit_write_fails_alone_and_the_others_of_its_batch_are_written(store: Store) -> None:
    fit, unfit = await store.send("fit", "unfit")
    store.calls.batches[0][1].set_exception(CallFailed(StatusCode.INVALID_ARGUMENT, "one of these"))
    await turn()
    for request, answer in store.calls.commits[LANES:]:
        if documents_of(request) == ["fit"]:
            answer.set_result(committed(3))
        else:
            answer.set_exception(CallFailed(StatusCode.INVALID_ARGUMENT, "this one"))
    assert await fit == ["3.000000000"]
    with pytest.raises(StoreError, match="this one"):
        await unfit
    more = [store.create("c"), store.create("d")]
    await turn()
    store.free()
    await turn()
    assert documents_of(store.calls.batches[-1][0]) == ["c", "d"]
    await store.end()
    await asyncio.gather(*more, return_exceptions=True)


@pytest.mark.parametrize("status", [StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED])
async def test_of_a_batch_that_failed_as_a_whole_nobody_takes_a_write_for_not_made(
    store: Store, status: StatusCode
) -> None:
    """The writes of a batch are not one: what is certain of a commit is not of these."""
    later = await store.send("a", "b")
    store.calls.batches[0][1].set_exception(CallFailed(status, "later"))
    seen = await asyncio.gather(*later, return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) and error.unclear for error in seen), seen
    await store.end()


async def test_an_answer_that_does_not_fit_its_batch_leaves_nobody_waiting(store: Store) -> None:
    later = await store.send("a", "b")
    with capture_logs() as lines:
        store.calls.batches[0][1].set_result(written(OK))
        seen = await asyncio.gather(*later, return_exceptions=True)
    assert seen[0] == ["10.000000000"]
    assert isinstance(seen[1], StoreUnavailable)
    assert seen[1].unclear
    assert [line["event"] for line in lines] == ["batch_write_broken"]
    await store.end()


async def test_requests_that_nobody_answers_keep_others_waiting_for_a_second_only() -> None:
    clock = ManualClock()
    store = Store(clock=clock)
    await store.fill()
    later = [store.create("a"), store.create("b")]
    await clock.advance(WAIT_SECONDS - 0.1)
    assert not store.calls.batches
    await clock.advance(0.2)
    assert documents_of(store.calls.batches[0][0]) == ["a", "b"]
    store.calls.batches[0][1].set_result(written(OK, OK))
    await asyncio.gather(*later)
    for _ in range(LANES):
        store.free()  # an answer that comes late frees nothing twice
    await turn()
    await store.fill_again()
    await store.end()


async def test_a_write_whose_time_is_over_before_it_was_sent_was_certainly_not_made() -> None:
    clock = ManualClock()
    store = Store(clock=clock)
    await store.fill()
    waiting = asyncio.create_task(store.documents.commit([Create(Key("claims", "a"), {})], timeout=0.5))
    sent = asyncio.create_task(store.documents.commit([Create(Key("claims", "b"), {})], timeout=0.8))
    await clock.advance(0.6)
    with pytest.raises(StoreUnavailable) as never:
        await waiting
    assert not never.value.unclear
    store.free()
    await clock.advance(0.3)
    with pytest.raises(StoreUnavailable) as perhaps:
        await sent
    assert perhaps.value.unclear
    await store.end()


async def test_who_gives_up_before_its_turn_has_sent_nothing(store: Store) -> None:
    await store.fill()
    leaving, staying, too = store.create("a"), store.create("b"), store.create("c")
    await turn()
    leaving.cancel()
    await turn()
    store.free()
    await turn()
    assert documents_of(store.calls.batches[0][0]) == ["b", "c"]
    await store.end()
    await asyncio.gather(leaving, staying, too, return_exceptions=True)


async def test_who_gives_up_in_the_turn_in_which_a_lane_is_freed_has_sent_nothing(store: Store) -> None:
    await store.fill()
    leaving, staying, too = store.create("a"), store.create("b"), store.create("c")
    await turn()
    store.free()
    leaving.cancel()
    await turn()
    assert documents_of(store.calls.batches[0][0]) == ["b", "c"]
    await store.end()
    await asyncio.gather(leaving, staying, too, return_exceptions=True)


async def test_where_everybody_has_gone_before_a_batch_leaves_nothing_is_sent(store: Store) -> None:
    leaving = await store.about_to_send("a", "b")
    for task in leaving:
        task.cancel()
    await turn()
    assert not store.calls.batches
    one, two = store.create("one"), store.create("two")
    await turn()
    assert [documents_of(request) for request, _ in store.calls.commits[LANES:]] == [["one"]]  # the lane is free again
    await store.end()
    await asyncio.gather(*leaving, one, two, return_exceptions=True)


async def test_who_gives_up_after_its_turn_costs_the_others_nothing(store: Store) -> None:
    leaving, staying = await store.send("a", "b")
    leaving.cancel()
    await turn()
    store.calls.batches[0][1].set_result(written(OK, OK))
    assert await staying == ["11.000000000"]
    await store.end()


async def test_closing_tells_everybody_who_waits(store: Store) -> None:
    await store.fill()
    sent = [store.create("a"), store.create("b")]
    await turn()
    store.free()
    await turn()
    waiting = store.create("c")
    await turn()
    await store.documents.close()
    seen = await asyncio.gather(*sent, waiting, *store.first[1:], return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) for error in seen), seen


async def test_closing_in_the_turn_in_which_a_batch_begins_tells_its_writers_too(store: Store) -> None:
    later = await store.about_to_send("a", "b")
    await store.documents.close()
    seen = await asyncio.gather(*later, return_exceptions=True)
    assert all(isinstance(error, StoreUnavailable) for error in seen), seen
