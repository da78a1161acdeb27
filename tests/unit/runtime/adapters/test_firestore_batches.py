"""Writes that share a request: who travels with whom, and when."""

from __future__ import annotations

import asyncio

import pytest
from google.rpc.code_pb2 import ALREADY_EXISTS, FAILED_PRECONDITION, OK

from runtime.adapters.firestore_batches import (
    BATCH_BYTES,
    BATCH_WRITES,
    LANES,
)
from runtime.ports.documents import (
    Create,
    DocumentExists,
    Key,
    Replace,
    Version,
    VersionMismatch,
)
from tests.support.held_firestore import Store, committed, documents_of, turn, written


async def test_a_write_goes_by_itself_and_at_once_while_few_are_under_way(store: Store) -> None:
    await store.fill()
    assert [documents_of(request) for request, _ in store.calls.commits] == [[f"first{n}"] for n in range(LANES)]
    assert not store.calls.batches
    await store.end()


async def test_writes_that_come_meanwhile_go_together_once_one_is_answered(store: Store) -> None:
    await store.fill()
    later = [store.create(name) for name in ("a", "b", "c")]
    await turn()
    assert not store.calls.batches
    store.free()
    await turn()
    [(request, answer)] = store.calls.batches
    assert documents_of(request) == ["a", "b", "c"]
    assert request.database == store.calls.database
    answer.set_result(written(OK, OK, OK))
    assert await asyncio.gather(*later) == [["10.000000000"], ["11.000000000"], ["12.000000000"]]
    await store.end()


async def test_each_write_of_a_batch_keeps_its_own_condition_and_hears_its_own_fate(store: Store) -> None:
    await store.fill()
    created, exists = store.create("a"), store.create("b")
    lost = asyncio.create_task(store.documents.commit([Replace(Key("claims", "c"), {}, Version("5.000000000"))]))
    await turn()
    store.free()
    await turn()
    [(request, answer)] = store.calls.batches
    assert [write.current_document.WhichOneof("condition_type") for write in request.writes] == [
        "exists", "exists", "update_time",
    ]  # fmt: skip
    answer.set_result(written(OK, ALREADY_EXISTS, FAILED_PRECONDITION))
    assert await created == ["10.000000000"]
    with pytest.raises(DocumentExists):
        await exists
    with pytest.raises(VersionMismatch):
        await lost
    await store.end()


async def test_two_writes_of_one_document_never_share_a_request(store: Store) -> None:
    await store.fill()
    later = [store.create(name) for name in ("a", "a", "b", "b", "a")]
    await turn()
    for _ in range(3):
        store.free()
    await turn()
    assert [documents_of(request) for request, _ in store.calls.batches] == [["a", "b"], ["a", "b"]]
    assert documents_of(store.calls.commits[-1][0]) == ["a"]
    await store.end()
    await asyncio.gather(*later, return_exceptions=True)


async def test_a_request_has_a_bounded_number_of_writes_and_of_bytes(store: Store) -> None:
    await store.fill()
    small = [store.create(f"small{number}") for number in range(BATCH_WRITES + 1)]
    large = [store.create(f"large{number}", text="x" * (BATCH_BYTES // 2)) for number in range(3)]
    await turn()
    for _ in range(LANES):
        store.free()
    await turn()
    sizes = [len(request.writes) for request, _ in store.calls.batches]
    assert sizes == [BATCH_WRITES, 3]  # one small, and two large that reach the bound
    assert documents_of(store.calls.commits[-1][0]) == ["large2"]
    await store.end()
    await asyncio.gather(*small, *large, return_exceptions=True)


async def test_nothing_waits_for_ever_each_answer_lets_the_next_go(store: Store) -> None:
    await store.fill()
    later = [store.create(f"d{number}") for number in range(10 * BATCH_WRITES)]
    while not all(task.done() for task in later):
        await turn()
        for _, answer in store.calls.commits:
            if not answer.done():
                answer.set_result(committed())
        for request, answer in store.calls.batches:
            if not answer.done():
                answer.set_result(written(*[OK] * len(request.writes)))
    assert len(store.calls.batches) < 20
    await asyncio.gather(*later)
    await store.end()


async def test_a_batch_has_the_time_of_the_most_patient_of_its_writes(store: Store) -> None:
    await store.fill()
    times = (3.0, 9.0, 6.0)
    later = [
        asyncio.create_task(store.documents.commit([Create(Key("claims", f"t{seconds}"), {})], timeout=seconds))
        for seconds in times
    ]
    await turn()
    store.free()
    await turn()
    assert 6.0 < store.calls.lefts[-1] <= 9.0
    await store.end()
    await asyncio.gather(*later, return_exceptions=True)
