"""What is PostgreSQL's own in the document store: lost connections, locks, store clock, schema."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from runtime.adapters import postgres_sql
from runtime.adapters.postgres import PostgresDocuments
from runtime.adapters.postgres_schema import create_schema, open_pool
from runtime.contract.names import INDEXES, RUN_EVENTS, TTL_FIELD
from runtime.ports.documents import (
    Create,
    Delete,
    Filter,
    Key,
    Operator,
    Query,
    Replace,
    StoreMisconfigured,
    StoreUnavailable,
    Value,
    VersionMismatch,
    Write,
)

KEY = Key("claims", "one")
OTHER = Key("claims", "two")


@asynccontextmanager
async def opened(
    dsn: str, *, size: int = 4, store_clock: str = postgres_sql.STORE_CLOCK
) -> AsyncIterator[PostgresDocuments]:
    pool = await open_pool(dsn, size=size)
    await create_schema(pool)
    documents = PostgresDocuments(pool, store_clock=store_clock)
    try:
        yield documents
    finally:
        await documents.close()


@pytest.fixture
async def documents(postgres_dsn: str) -> AsyncIterator[PostgresDocuments]:
    async with opened(postgres_dsn) as store:
        yield store


@pytest.fixture
async def observer(postgres_dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of the test's own, which holds locks and ends other connections."""
    connection = await asyncpg.connect(postgres_dsn, password="")
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def waiting_backend(observer: asyncpg.Connection[asyncpg.Record]) -> int:
    """Process id of the connection that waits for a lock."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while (pid := await observer.fetchval(waiting)) is None:
        await observer.execute("SELECT pg_sleep(0.01)")
    return int(pid)


@asynccontextmanager
async def held_row(observer: asyncpg.Connection[asyncpg.Record], key: Key = KEY) -> AsyncIterator[None]:
    async with observer.transaction():
        await observer.execute("SELECT 1 FROM documents WHERE id = $1 FOR UPDATE", key.id)
        yield


async def data_of(documents: PostgresDocuments, key: Key = KEY) -> object:
    document = await documents.get(key)
    return None if document is None else document.data


async def test_a_connection_killed_during_a_single_write_leaves_it_unclear_and_can_be_read_back(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    [version] = await documents.commit([Create(KEY, {"n": 1})])
    async with held_row(observer):
        commit = asyncio.create_task(documents.commit([Replace(KEY, {"n": 2}, version)]))
        await observer.execute("SELECT pg_terminate_backend($1)", await waiting_backend(observer))
        with pytest.raises(StoreUnavailable) as caught:
            await commit
    assert caught.value.unclear
    assert await data_of(documents) == {"n": 1}


async def test_a_connection_killed_before_the_end_of_several_writes_has_certainly_written_nothing(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    [version] = await documents.commit([Create(KEY, {"n": 1})])
    async with held_row(observer):
        writes: list[Write] = [Create(OTHER, {}), Replace(KEY, {"n": 2}, version), Create(Key("aaa", "first"), {})]
        commit = asyncio.create_task(documents.commit(writes))
        await observer.execute("SELECT pg_terminate_backend($1)", await waiting_backend(observer))
        with pytest.raises(StoreUnavailable) as caught:
            await commit
    assert not caught.value.unclear
    assert await data_of(documents) == {"n": 1}
    assert await data_of(documents, Key("aaa", "first")) is None


async def test_a_connection_killed_while_several_writes_are_being_committed_leaves_them_unclear(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    await observer.execute(
        """
        CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON documents
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
        """
    )
    async with observer.transaction():
        await observer.execute("SELECT pg_advisory_xact_lock(7)")
        commit = asyncio.create_task(documents.commit([Create(KEY, {}), Create(OTHER, {})]))
        await observer.execute("SELECT pg_terminate_backend($1)", await waiting_backend(observer))
        with pytest.raises(StoreUnavailable) as caught:
            await commit
    assert caught.value.unclear
    assert [await data_of(documents, key) for key in (KEY, OTHER)] == [None, None]


async def test_connections_killed_while_idle_are_replaced_without_anyone_noticing(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    await documents.commit([Create(KEY, {"n": 1})])
    others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'holdfast'"
    assert await observer.fetch(others)
    assert await data_of(documents) == {"n": 1}


async def test_a_write_that_runs_out_of_time_is_unclear_and_is_stopped_on_the_server(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with opened(postgres_dsn, size=1) as documents:
        [version] = await documents.commit([Create(KEY, {"n": 1})])
        async with held_row(observer):
            with pytest.raises(StoreUnavailable) as caught:
                await documents.commit([Replace(KEY, {"n": 2}, version)], timeout=0.1)
            assert caught.value.unclear
            # The only connection is free again although the lock is still held, and nothing is left waiting for it.
            assert await data_of(documents) == {"n": 1}
        assert await data_of(documents) == {"n": 1}


async def test_several_writes_that_run_out_of_time_before_their_end_are_rolled_back(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with opened(postgres_dsn, size=1) as documents:
        [version] = await documents.commit([Create(KEY, {"n": 1})])
        async with held_row(observer):
            with pytest.raises(StoreUnavailable) as caught:
                await documents.commit([Create(Key("aaa", "first"), {}), Replace(KEY, {"n": 2}, version)], timeout=0.1)
            assert not caught.value.unclear
            assert await data_of(documents, Key("aaa", "first")) is None
        assert await data_of(documents) == {"n": 1}


async def test_a_cancelled_write_gives_its_connection_back(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with opened(postgres_dsn, size=1) as documents:
        [version] = await documents.commit([Create(KEY, {"n": 1})])
        async with held_row(observer):
            commit = asyncio.create_task(documents.commit([Replace(KEY, {"n": 2}, version)]))
            await waiting_backend(observer)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            assert await data_of(documents) == {"n": 1}


async def test_a_read_that_runs_out_of_time_is_never_unclear(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with observer.transaction():
        await observer.execute("LOCK TABLE documents")
        with pytest.raises(StoreUnavailable) as caught:
            await documents.get(KEY, timeout=0.1)
    assert not caught.value.unclear


async def test_waiting_for_a_free_connection_counts_as_time_and_is_never_unclear(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with opened(postgres_dsn, size=1) as documents:
        [version] = await documents.commit([Create(KEY, {"n": 1})])
        async with held_row(observer):
            first = asyncio.create_task(documents.commit([Replace(KEY, {"n": 2}, version)]))
            await waiting_backend(observer)
            with pytest.raises(StoreUnavailable) as caught:
                await documents.commit([Create(OTHER, {})], timeout=0.1)
            assert not caught.value.unclear
        await first


async def test_a_waiting_replace_loses_to_the_one_it_waited_for(
    documents: PostgresDocuments, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    [version] = await documents.commit([Create(KEY, {"n": 1})])
    async with held_row(observer):
        late = asyncio.create_task(documents.commit([Replace(KEY, {"n": 3}, version)]))
        await waiting_backend(observer)
        await observer.execute("UPDATE documents SET version = nextval('documents_version') WHERE id = $1", KEY.id)
    with pytest.raises(VersionMismatch):
        await late


async def test_a_server_that_is_not_there_is_unavailable_and_the_write_certainly_not_applied() -> None:
    documents = PostgresDocuments(await open_pool("postgresql://postgres@/postgres?host=/nonexistent-socket"))
    with pytest.raises(StoreUnavailable) as caught:
        await documents.commit([Create(KEY, {})])
    assert not caught.value.unclear
    await documents.close()


async def test_a_missing_database_table_or_permission_is_a_misconfiguration(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    """BR-42: what will go on failing is told apart from what may pass."""
    wrong = PostgresDocuments(await open_pool(postgres_dsn.replace("/test_", "/missing_")))
    empty = PostgresDocuments(await open_pool(postgres_dsn))
    await observer.execute("CREATE ROLE stranger LOGIN")
    try:
        for documents in (wrong, empty):
            with pytest.raises(StoreMisconfigured):
                await documents.get(KEY)
        await create_schema(observer_pool := await open_pool(postgres_dsn))
        await observer_pool.close()
        stranger = PostgresDocuments(await open_pool(postgres_dsn.replace("postgres@", "stranger@")))
        with pytest.raises(StoreMisconfigured):
            await stranger.commit([Create(KEY, {})])
        await stranger.close()
    finally:
        await observer.execute("DROP ROLE stranger")
        await wrong.close()
        await empty.close()


async def test_the_store_clock_may_be_any_sql_expression(postgres_dsn: str) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    async with opened(postgres_dsn, store_clock="(SELECT now_is FROM store_time)") as documents:
        async with documents._pool.acquire() as connection:
            await connection.execute("CREATE TABLE store_time AS SELECT $1::timestamptz AS now_is", moment)
        await documents.commit([Create(KEY, {})])
        async with documents._pool.acquire() as connection:
            await connection.execute("UPDATE store_time SET now_is = now_is + interval '181 seconds'")
        document = await documents.get(KEY)
        [queried] = await documents.query(Query("claims"))
    assert document is not None
    assert (document.updated_at, document.age, queried.age) == (moment, timedelta(seconds=181), timedelta(seconds=181))


async def test_expired_documents_are_deleted_and_no_others(documents: PostgresDocuments) -> None:
    now = datetime.now(UTC)
    rows: dict[str, dict[str, Value]] = {
        "past": {TTL_FIELD: now - timedelta(seconds=1)},
        "long past": {TTL_FIELD: datetime(1, 1, 1, tzinfo=UTC)},
        "future": {TTL_FIELD: now + timedelta(hours=1)},
        "none": {},
        "not a time": {TTL_FIELD: 1},
    }
    await documents.commit([Create(Key(name, id_), data) for name in ("a", "b") for id_, data in rows.items()])
    assert await documents.delete_expired(["a", "empty"], TTL_FIELD) == 2
    assert [d.key.id for d in await documents.query(Query("a"))] == ["future", "none", "not a time"]
    assert len(await documents.query(Query("b"))) == 5


async def test_stores_with_different_prefixes_share_a_table_and_nothing_else(postgres_dsn: str) -> None:
    pool = await open_pool(postgres_dsn)
    await create_schema(pool)
    first, second = PostgresDocuments(pool, prefix="one-"), PostgresDocuments(pool, prefix="two-")
    [version] = await first.commit([Create(KEY, {TTL_FIELD: datetime(2020, 1, 1, tzinfo=UTC)})])
    assert await second.get(KEY) is None
    assert await second.query(Query("claims")) == []
    assert await second.delete_expired(["claims"], TTL_FIELD) == 0
    with pytest.raises(VersionMismatch):
        await second.commit([Delete(KEY, version)])
    assert await first.get(KEY) is not None
    await first.close()
    await second.close()


async def test_many_processes_may_create_the_schema_at_once_and_again(postgres_dsn: str) -> None:
    pools = [await open_pool(postgres_dsn) for _ in range(5)]
    await asyncio.gather(*(create_schema(pool, indexes=INDEXES) for pool in pools))
    await create_schema(pools[0], indexes=INDEXES)
    for pool in pools:
        await pool.close()


async def test_a_declared_index_serves_its_query(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with opened(postgres_dsn) as documents:
        await create_schema(documents._pool, prefix="p-", indexes=INDEXES)
    conditions = [Filter("run_id", Operator.EQUAL, "r"), Filter("last_sequence", Operator.GREATER, 5)]
    text, parameters = postgres_sql.select(Query(RUN_EVENTS, conditions, order_by="last_sequence"), "p-run_events")
    # An empty table is read as a whole, and its primary key serves any order: neither says anything of the index.
    await observer.execute(
        "SET enable_seqscan = off; SET enable_sort = off; ALTER TABLE documents DROP CONSTRAINT documents_pkey"
    )
    plan = "\n".join(row[0] for row in await observer.fetch(f"EXPLAIN {text}", *parameters))
    assert "Index Scan using documents_" in plan
    assert "Filter" not in plan, "every condition is the index's"


async def test_closing_waits_for_no_call_that_hangs(
    postgres_dsn: str, observer: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.adapters.postgres.CLOSE_SECONDS", 0.1)
    async with opened(postgres_dsn) as documents:
        [version] = await documents.commit([Create(KEY, {"n": 1})])
        async with held_row(observer):
            commit = asyncio.create_task(documents.commit([Replace(KEY, {"n": 2}, version)]))
            await waiting_backend(observer)
            await documents.close()
            with pytest.raises(StoreUnavailable) as caught:
                await commit
    assert caught.value.unclear
