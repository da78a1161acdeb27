"""Documents in a PostgreSQL table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from runtime.adapters import postgres_sql as sql
from runtime.adapters.clock import SystemClock
from runtime.adapters.document_rules import check_key, checked_writes
from runtime.adapters.postgres_errors import DRIVER_ERRORS, store_error
from runtime.adapters.query_rules import Indexes, checked_query
from runtime.ports.clock import Clock
from runtime.ports.documents import (
    Create,
    Document,
    DocumentExists,
    Key,
    Query,
    Replace,
    StoreError,
    StoreUnavailable,
    Value,
    Version,
    VersionMismatch,
    Write,
)

T = TypeVar("T")
# A string, because the class can be subscripted only in the stubs.
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"

RECOVER_SECONDS: Final = 2
"""How long a connection may take to stop a statement that was given up, before it is cut."""
CLOSE_SECONDS: Final = 5
"""How long close waits for calls under way."""
_INT64_MAX: Final = 2**63 - 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, object]).decode


class _Progress:
    """Whether a call has reached the point where the server may commit without us hearing of it."""

    sent = False


class PostgresDocuments:
    """A document store in one table, `documents`; create_schema makes it.

    A commit of one write is one statement, and one round trip once its connection has seen the statement before.
    Several writes are one transaction that locks in the order of their keys, so that two commits never wait for each
    other. A call that ends early (timeout, cancellation) asks the server to stop, and may still be applied.

    Args:
        pool: connections, best from open_pool; the store takes it over, and close() closes it.
        prefix: put before every collection name; "" means none.
        indexes: declared composite indexes, by logical collection; None means that they are not checked.
        store_clock: SQL expression of the store's time, evaluated at each write and read.
        clock: for timeouts; None means the system's.
    """

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        prefix: str = "",
        indexes: Indexes | None = None,
        store_clock: str = sql.STORE_CLOCK,
        clock: Clock | None = None,
    ) -> None:
        self._pool = pool
        self._prefix = prefix
        self._indexes = indexes
        self._store_clock = store_clock
        self._clock = clock or SystemClock()
        self._create, self._replace, self._get = (self._timed(text) for text in (sql.CREATE, sql.REPLACE, sql.GET))
        self._recovering: set[asyncio.Task[None]] = set()
        self._closed = False

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """See Documents."""
        check_key(key)
        collection = self._prefix + key.collection

        async def read(connection: Connection) -> asyncpg.Record | None:
            return await connection.fetchrow(self._get, collection, key.id)

        row = await self._call(read, timeout, _Progress())
        return None if row is None else _document(key.collection, row)

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """See Documents."""
        datas = checked_writes(writes, self._prefix)
        progress = _Progress()

        async def single(connection: Connection) -> list[Version]:
            progress.sent = True
            return [await self._apply(connection, writes[0], datas[0])]

        async def several(connection: Connection) -> list[Version]:
            return await self._transaction(connection, writes, datas, progress)

        return await self._call(single if len(writes) == 1 else several, timeout, progress)

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """See Documents."""
        query = checked_query(query, self._indexes)
        text, parameters = sql.select(query, self._prefix + query.collection, self._store_clock)

        async def read(connection: Connection) -> list[asyncpg.Record]:
            return await connection.fetch(text, *parameters)

        return [_document(query.collection, row) for row in await self._call(read, timeout, _Progress())]

    async def delete_expired(self, collections: Sequence[str], field: str, *, timeout: float = 60) -> int:
        """Deletes the documents whose time `field` has passed, as a TTL policy does, and returns how many.

        Args:
            collections: logical names.
            field: a top-level field; documents where it is absent or not a time stay.
            timeout: seconds.

        Raises:
            StoreUnavailable, StoreMisconfigured
        """
        names = [self._prefix + name for name in collections]
        progress = _Progress()

        async def expire(connection: Connection) -> int:
            due = sql.field_key(await connection.fetchval(self._timed(sql.NOW)))
            progress.sent = True
            return len(await connection.fetch(sql.EXPIRE, names, field, due[:2], due))

        return await self._call(expire, timeout, progress)

    async def close(self) -> None:
        """See Documents. Calls under way have 5 s to end."""
        self._closed = True
        if self._recovering:
            await asyncio.wait(self._recovering)
        try:
            async with self._clock.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except (TimeoutError, *DRIVER_ERRORS):
            self._pool.terminate()

    async def _transaction(
        self,
        connection: Connection,
        writes: Sequence[Write],
        datas: Sequence[dict[str, Value]],
        progress: _Progress,
    ) -> list[Version]:
        versions = [Version("")] * len(writes)
        await connection.execute("BEGIN")
        try:
            for index in sorted(range(len(writes)), key=lambda i: (writes[i].key.collection, writes[i].key.id)):
                versions[index] = await self._apply(connection, writes[index], datas[index])
        except StoreError:
            await connection.execute("ROLLBACK")
            raise
        progress.sent = True
        await connection.execute("COMMIT")
        return versions

    async def _apply(self, connection: Connection, write: Write, data: dict[str, Value]) -> Version:
        key = (self._prefix + write.key.collection, write.key.id)
        if isinstance(write, Create):
            version = await connection.fetchval(self._create, *key, _encode(data), _keys(data))
            if version is None:
                raise DocumentExists(f"{write.key} exists")
            return Version(str(version))
        expected = _number(write.version)
        if isinstance(write, Replace):
            version = await connection.fetchval(self._replace, *key, _encode(data), _keys(data), expected)
        else:
            version = await connection.fetchval(sql.DELETE, *key, expected)
        if version is None:
            raise VersionMismatch(f"{write.key} has not version {write.version} any more")
        return Version(str(version) if isinstance(write, Replace) else "")

    async def _call(self, operation: Callable[[Connection], Awaitable[T]], timeout: float, progress: _Progress) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed", unclear=False)
        try:
            async with self._clock.timeout(timeout):
                connection = await self._pool.acquire()
                return await self._on(connection, operation)
        except TimeoutError:
            raise StoreUnavailable(f"no answer within {timeout} s", unclear=progress.sent) from None
        except DRIVER_ERRORS as error:
            raise store_error(error, sent=progress.sent) from error

    async def _on(self, connection: Connection, operation: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            result = await operation(connection)
        except StoreError:
            await self._pool.release(connection, timeout=RECOVER_SECONDS)
            raise
        except BaseException:
            # Stopping a statement takes a round trip of its own, which the caller's time does not cover.
            task = asyncio.create_task(self._recover(connection))
            self._recovering.add(task)
            task.add_done_callback(self._recovering.discard)
            raise
        await self._pool.release(connection, timeout=RECOVER_SECONDS)
        return result

    async def _recover(self, connection: Connection) -> None:
        try:
            async with self._clock.timeout(RECOVER_SECONDS):
                if not connection.is_closed() and connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
                await self._pool.release(connection, timeout=RECOVER_SECONDS)
        except (TimeoutError, *DRIVER_ERRORS):
            # A connection that ended by itself has left the pool's proxy already, which then refuses every call.
            with suppress(asyncpg.InterfaceError):
                connection.terminate()

    def _timed(self, text: str) -> str:
        return text.replace(sql.STORE_CLOCK, self._store_clock)


def _document(collection: str, row: asyncpg.Record) -> Document:
    return Document(
        Key(collection, row["id"]),
        _decode(row["data"]),
        Version(str(row["version"])),
        row["updated_at"],
        row["read_at"],
    )


def _keys(data: dict[str, Value]) -> str:
    return msgspec.json.encode({name: sql.field_key(value) for name, value in data.items()}).decode()


def _number(version: Version) -> int:
    """A version of another store, or none, is one that no document has."""
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0
    return min(number, _INT64_MAX)
