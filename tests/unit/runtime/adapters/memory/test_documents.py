"""What is the memory store's own: its clock, its turns, its expiry. Everything else is in the contract tier."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory import MemoryDocuments
from runtime.contract.names import TTL_FIELD
from runtime.ports.documents import Create, Key, Query, Replace, VersionMismatch

KEY = Key("claims", "one")


async def test_store_time_is_the_clocks_wall_time() -> None:
    """BR-36"""
    clock = ManualClock()
    documents = MemoryDocuments(clock)
    await documents.commit([Create(KEY, {})])
    await clock.advance(181)
    document = await documents.get(KEY)
    assert document is not None
    assert document.age == timedelta(seconds=181)
    assert document.read_at == clock.now()


async def test_a_version_changes_even_where_time_stands_still() -> None:
    documents = MemoryDocuments(ManualClock())
    [first] = await documents.commit([Create(KEY, {})])
    [second] = await documents.commit([Replace(KEY, {}, first)])
    assert first != second


async def test_every_call_gives_others_a_turn_so_that_a_read_and_its_write_can_be_parted() -> None:
    documents = MemoryDocuments(ManualClock())
    await documents.commit([Create(KEY, {"n": 0})])

    async def increment() -> bool:
        document = await documents.get(KEY)
        assert document is not None
        try:
            await documents.commit([Replace(KEY, {"n": 1}, document.version)])
        except VersionMismatch:
            return False
        return True

    assert sorted(await asyncio.gather(increment(), increment())) == [False, True]


async def test_expired_documents_go_when_they_are_swept_and_not_before() -> None:
    clock = ManualClock()
    documents = MemoryDocuments(clock, prefix="p-")
    soon, later = clock.now() + timedelta(seconds=10), clock.now() + timedelta(seconds=20)
    await documents.commit([Create(Key("a", "soon"), {TTL_FIELD: soon}), Create(Key("a", "later"), {TTL_FIELD: later})])
    await documents.commit([Create(Key("a", "never"), {}), Create(Key("b", "soon"), {TTL_FIELD: soon})])
    await clock.advance(10)
    assert len(await documents.query(Query("a"))) == 3
    assert await documents.delete_expired(["a"], TTL_FIELD) == 1
    assert [document.key.id for document in await documents.query(Query("a"))] == ["later", "never"]
    assert len(await documents.query(Query("b"))) == 1
