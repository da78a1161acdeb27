"""The store as a caller's declared rights allow it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from runtime.adapters.memory.documents import MemoryDocuments
from runtime.ports.documents import Create, Key, Query, StoreMisconfigured
from sandbox.sql.documents import DeclaredDocuments, StoreAccess
from sandbox.world import DATABASE, Resource, World

KEY = Key("runs", "r1")
ACCOUNT = "worker@p.iam.gserviceaccount.com"


def world(*, role: str = "roles/datastore.user", database: str = "(default)") -> World:
    made = World("p", "123", "europe-west1", Path("/nonexistent"))
    made.put(Resource(DATABASE, database, "urn:d", {"name": database}, {}))
    grant = {"project": "p", "role": role, "member": f"serviceAccount:{ACCOUNT}"}
    made.put(Resource("gcp:projects/iAMMember:IAMMember", "g", "urn:g", grant, {}))
    return made


async def test_a_caller_with_grant_and_database_reaches_the_store() -> None:
    store = DeclaredDocuments(MemoryDocuments(ManualClock()), "(default)", StoreAccess.declared(world(), ACCOUNT))
    await store.commit([Create(KEY, {"state": "queued"})])
    found = await store.get(KEY)
    assert found is not None
    assert len(await store.query(Query("runs"))) == 1
    await store.close()


CALLS: dict[str, Callable[[DeclaredDocuments], Awaitable[object]]] = {
    "get": lambda store: store.get(KEY),
    "commit": lambda store: store.commit([Create(KEY, {})]),
    "query": lambda store: store.query(Query("runs")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_without_the_grant_nothing_is_read_or_written_and_the_grant_is_named(
    call: Callable[[DeclaredDocuments], Awaitable[object]],
) -> None:
    inner = MemoryDocuments(ManualClock())
    with capture_logs() as logs:
        access = StoreAccess.declared(world(role="roles/viewer"), ACCOUNT)
        store = DeclaredDocuments(inner, "(default)", access)
    named = f"missing grant: roles/datastore.user on project p for serviceAccount:{ACCOUNT}"
    with pytest.raises(StoreMisconfigured, match=named):
        await call(store)
    assert await inner.get(KEY) is None
    assert [(row["event"], row["detail"]) for row in logs] == [("grant_missing", named)]


async def test_an_undeclared_database_does_not_exist() -> None:
    access = StoreAccess.declared(world(database="other"), ACCOUNT)
    store = DeclaredDocuments(MemoryDocuments(ManualClock()), "jobs", access)
    with pytest.raises(StoreMisconfigured, match="database jobs does not exist; declared: other"):
        await store.get(KEY)


async def test_the_missing_grant_is_told_before_the_missing_database() -> None:
    access = StoreAccess.declared(World("p", "1", "r", Path("/nonexistent")), ACCOUNT)
    with pytest.raises(StoreMisconfigured, match="missing grant"):
        await DeclaredDocuments(MemoryDocuments(ManualClock()), "jobs", access).get(KEY)
