"""What the document port promises about writes and reads, on every adapter.

Not covered: that a cancelled write may still be applied. It may, on every real store; nothing can be asserted of it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runtime.ports.documents import (
    Create,
    Delete,
    Document,
    DocumentExists,
    Documents,
    Key,
    Replace,
    StoreError,
    StoreUnavailable,
    Version,
    VersionMismatch,
    Write,
)
from tests.contract.conftest import OpenDocuments

KEY = Key("claims", "one")
OTHER = Key("claims", "two")


async def stored(documents: Documents, key: Key = KEY) -> Document:
    document = await documents.get(key)
    assert document is not None
    return document


async def test_a_document_that_was_never_written_reads_as_none(documents: Documents) -> None:
    assert await documents.get(KEY) is None


async def test_what_was_created_is_read_back_with_the_version_that_the_commit_gave(documents: Documents) -> None:
    [version] = await documents.commit([Create(KEY, {"owner": "a", "attempts": 1})])
    document = await stored(documents)
    assert document.key == KEY
    assert document.data == {"owner": "a", "attempts": 1}
    assert document.version == version


async def test_a_second_create_is_refused_and_changes_nothing(documents: Documents) -> None:
    [version] = await documents.commit([Create(KEY, {"owner": "a"})])
    with pytest.raises(DocumentExists, match="one"):
        await documents.commit([Create(KEY, {"owner": "b"})])
    document = await stored(documents)
    assert (document.data, document.version) == ({"owner": "a"}, version)


async def test_a_replace_with_the_present_version_wins_and_replaces_the_whole_document(documents: Documents) -> None:
    [first] = await documents.commit([Create(KEY, {"owner": "a", "only_at_first": True})])
    [second] = await documents.commit([Replace(KEY, {"owner": "b"}, first)])
    assert second != first
    document = await stored(documents)
    assert (document.data, document.version) == ({"owner": "b"}, second)


async def test_a_replace_with_an_old_version_is_refused_and_changes_nothing(documents: Documents) -> None:
    [first] = await documents.commit([Create(KEY, {"owner": "a"})])
    [second] = await documents.commit([Replace(KEY, {"owner": "b"}, first)])
    with pytest.raises(VersionMismatch, match="one"):
        await documents.commit([Replace(KEY, {"owner": "c"}, first)])
    document = await stored(documents)
    assert (document.data, document.version) == ({"owner": "b"}, second)


async def test_a_replace_that_changes_nothing_still_takes_the_version_away_from_everyone_else(
    documents: Documents,
) -> None:
    """F36: Firestore keeps the update time of such a write, and then two holders of one version would both win."""
    [first] = await documents.commit([Create(KEY, {"owner": "a"})])
    [second] = await documents.commit([Replace(KEY, {"owner": "a"}, first)])
    [third] = await documents.commit([Replace(KEY, {"owner": "a"}, second)])
    assert len({first, second, third}) == 3
    with pytest.raises(VersionMismatch):
        await documents.commit([Replace(KEY, {"owner": "b"}, second)])


async def test_a_replace_or_delete_of_a_missing_document_is_a_mismatch(documents: Documents) -> None:
    [version] = await documents.commit([Create(OTHER, {})])
    with pytest.raises(VersionMismatch):
        await documents.commit([Replace(KEY, {"a": 1}, version)])
    with pytest.raises(VersionMismatch):
        await documents.commit([Delete(KEY, version)])


@pytest.mark.parametrize("version", ["", "0", "12", "no-version", "9" * 30, "1.000000001", "١"])
async def test_a_version_that_the_store_never_gave_is_a_mismatch(documents: Documents, version: str) -> None:
    await documents.commit([Create(KEY, {})])
    with pytest.raises(VersionMismatch):
        await documents.commit([Replace(KEY, {"a": 1}, Version(f"{version}"))])
    assert (await stored(documents)).data == {}


async def test_a_delete_needs_the_present_version_and_gives_no_version(documents: Documents) -> None:
    [first] = await documents.commit([Create(KEY, {"owner": "a"})])
    [second] = await documents.commit([Replace(KEY, {"owner": "b"}, first)])
    with pytest.raises(VersionMismatch):
        await documents.commit([Delete(KEY, first)])
    assert await documents.commit([Delete(KEY, second)]) == [""]
    assert await documents.get(KEY) is None


async def test_a_document_that_was_deleted_and_created_again_has_none_of_its_old_versions(
    documents: Documents,
) -> None:
    [old] = await documents.commit([Create(KEY, {"owner": "a"})])
    await documents.commit([Delete(KEY, old)])
    [new] = await documents.commit([Create(KEY, {"owner": "a"})])
    assert new != old
    with pytest.raises(VersionMismatch):
        await documents.commit([Delete(KEY, old)])


async def test_a_commit_of_several_writes_gives_their_versions_in_the_order_asked(documents: Documents) -> None:
    keys = [Key("claims", name) for name in ("c", "a", "b")]
    versions = await documents.commit([Create(key, {"name": key.id}) for key in keys])
    assert [(await stored(documents, key)).version for key in keys] == versions


async def test_one_condition_that_fails_keeps_every_write_of_the_commit_away(documents: Documents) -> None:
    [first] = await documents.commit([Create(KEY, {"n": 1})])
    [gone] = await documents.commit([Create(OTHER, {"n": 1})])
    await documents.commit([Delete(OTHER, gone)])
    with pytest.raises(VersionMismatch, match="two"):
        await documents.commit([Create(Key("runs", "new"), {}), Replace(KEY, {"n": 2}, first), Delete(OTHER, gone)])
    with pytest.raises(DocumentExists):
        await documents.commit([Create(Key("runs", "new"), {}), Create(KEY, {})])
    assert await documents.get(Key("runs", "new")) is None
    document = await stored(documents)
    assert (document.data, document.version) == ({"n": 1}, first)


async def test_create_replace_and_delete_go_together_in_one_commit(documents: Documents) -> None:
    [first, second] = await documents.commit([Create(KEY, {"n": 1}), Create(OTHER, {"n": 1})])
    new = Key("runs", "new")
    versions = await documents.commit([Delete(OTHER, second), Create(new, {"n": 3}), Replace(KEY, {"n": 2}, first)])
    assert versions[0] == ""
    assert await documents.get(OTHER) is None
    assert (await stored(documents, new)).version == versions[1]
    assert (await stored(documents)).version == versions[2]


async def test_five_hundred_writes_fit_one_commit_and_no_more(documents: Documents) -> None:
    writes = [Create(Key("many", f"{number:03}"), {"n": number}) for number in range(501)]
    with pytest.raises(StoreError) as caught:
        await documents.commit(writes)
    assert caught.value.code == "invalid_commit"
    assert len(await documents.commit(writes[:500], timeout=30)) == 500
    assert (await stored(documents, Key("many", "499"))).data == {"n": 499}


async def test_a_commit_of_nothing_or_of_one_document_twice_is_refused(documents: Documents) -> None:
    refused: list[list[Write]] = [[], [Create(KEY, {}), Create(KEY, {})], [Create(KEY, {}), Delete(KEY, Version("1"))]]
    for writes in refused:
        with pytest.raises(StoreError) as caught:
            await documents.commit(writes)
        assert caught.value.code == "invalid_commit"
    assert await documents.get(KEY) is None


async def test_of_twenty_creators_exactly_one_wins(documents: Documents) -> None:
    async def create(number: int) -> bool:
        try:
            await documents.commit([Create(KEY, {"owner": number})])
        except DocumentExists:
            return False
        return True

    won = await asyncio.gather(*(create(number) for number in range(20)))
    assert won.count(True) == 1
    assert (await stored(documents)).data == {"owner": won.index(True)}


async def test_a_counter_under_compare_and_set_loses_no_increment(documents: Documents) -> None:
    await documents.commit([Create(KEY, {"n": 0})])

    async def increment() -> None:
        while True:
            document = await stored(documents)
            number = document.data["n"]
            assert isinstance(number, int)
            try:
                await documents.commit([Replace(KEY, {"n": number + 1}, document.version)])
            except VersionMismatch:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await stored(documents)).data == {"n": 8}


async def test_of_many_writers_at_once_each_hears_the_fate_of_its_own_write(documents: Documents) -> None:
    """Whatever an adapter sends together: one winner for each document, and everybody else is told so."""

    async def written(number: int, turn: int) -> Version | None:
        key = Key("claims", f"{number}")
        try:
            [version] = await documents.commit([Create(key, {"turn": turn})])
        except DocumentExists:
            return None
        return version

    for first in (0, 20):
        bids = [(number, turn) for turn in range(4) for number in range(first, first + 20)]
        fates = await asyncio.gather(*(written(*bid) for bid in bids))
        won = {number: (turn, version) for (number, turn), version in zip(bids, fates, strict=True) if version}
        assert len([version for version in fates if version]) == 20
        for number, (turn, version) in won.items():
            document = await stored(documents, Key("claims", f"{number}"))
            assert (document.data, document.version) == ({"turn": turn}, version)


async def test_commits_that_name_the_same_documents_in_different_orders_all_end(documents: Documents) -> None:
    keys = [Key("claims", f"{number}") for number in range(6)]
    versions = await documents.commit([Create(key, {"n": 0}) for key in keys])

    async def move(order: list[int]) -> bool:
        try:
            await documents.commit([Replace(keys[i], {"n": order[0]}, versions[i]) for i in order])
        except VersionMismatch:
            return False
        return True

    orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 4, 1, 3], [3, 1, 4, 0, 5, 2]]
    assert (await asyncio.gather(*map(move, orders))).count(True) == 1
    assert len({(await stored(documents, key)).data["n"] for key in keys}) == 1


async def test_versions_change_with_every_write_of_a_document(documents: Documents) -> None:
    [version] = await documents.commit([Create(KEY, {"n": 0})])
    seen = [version]
    for number in range(1, 20):
        seen += await documents.commit([Replace(KEY, {"n": number}, seen[-1])])
    assert len(set(seen)) == 20


async def test_age_is_the_time_between_write_and_read_on_the_stores_own_clock(documents: Documents) -> None:
    """BR-36: a field with the writer's clock decides nothing."""
    await documents.commit([Create(KEY, {"heartbeat_at_ms": 4102444800000})])
    first = await stored(documents)
    second = await stored(documents)
    assert first.updated_at.tzinfo is not None
    assert first.updated_at == second.updated_at
    assert timedelta(0) <= first.age <= second.age < timedelta(minutes=1)


async def test_a_write_makes_a_document_young_again(documents: Documents) -> None:
    [version] = await documents.commit([Create(KEY, {"n": 1})])
    before = await stored(documents)
    await documents.commit([Replace(KEY, {"n": 1}, version)])
    assert (await stored(documents)).updated_at > before.updated_at


async def test_documents_of_different_collections_with_one_id_are_strangers(documents: Documents) -> None:
    await documents.commit([Create(Key("runs", "x"), {"n": 1}), Create(Key("run_payloads", "x"), {"n": 2})])
    assert (await stored(documents, Key("runs", "x"))).data == {"n": 1}


async def test_the_prefix_is_invisible_to_the_caller(open_documents: OpenDocuments) -> None:
    documents = await open_documents(prefix="staging-")
    await documents.commit([Create(KEY, {"n": 1})])
    assert (await stored(documents)).key == KEY


async def test_a_closed_store_answers_unavailable_and_may_be_closed_twice(documents: Documents) -> None:
    await documents.commit([Create(KEY, {})])
    await documents.close()
    await documents.close()
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Create(OTHER, {})])
    assert not caught.value.unclear
    with pytest.raises(StoreUnavailable):
        await documents.get(KEY)


async def test_a_call_without_time_left_is_unavailable(documents: Documents) -> None:
    with pytest.raises(StoreUnavailable):
        await documents.get(KEY, timeout=0)
    with pytest.raises(StoreUnavailable):
        await documents.commit([Create(KEY, {})], timeout=0)


async def test_a_cancelled_call_leaves_the_store_usable(documents: Documents) -> None:
    await documents.commit([Create(KEY, {"n": 1})])
    tasks = [asyncio.create_task(documents.get(KEY)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (await stored(documents)).data == {"n": 1}
