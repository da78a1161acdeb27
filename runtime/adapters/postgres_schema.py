"""The table of the document store in PostgreSQL, and connections to it."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import unquote, urlsplit

import asyncpg

from runtime.adapters.postgres_sql import TABLE, key_expression, quoted
from runtime.adapters.query_rules import Indexes

_LOCK: Final = 0x686F6C6466617374
"""Advisory lock of the schema: `CREATE IF NOT EXISTS` alone fails where two processes meet."""
_STATEMENT_SECONDS: Final = 60
"""Server-side end of a statement whose client is gone; every client waits less."""


async def open_pool(dsn: str, *, size: int = 8, connect_timeout: float = 5) -> asyncpg.Pool[asyncpg.Record]:
    """A pool fit for PostgresDocuments: connections open on demand, and giving one back costs no round trip.

    Args:
        dsn: `postgresql://...`; no password means none, neither the environment nor a file is asked for one.
        size: most connections.
        connect_timeout: seconds for one connection to open.
    """
    return await asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=size,
        password=unquote(urlsplit(dsn).password or ""),
        timeout=connect_timeout,
        reset=_keep,
        server_settings={
            "application_name": "holdfast",
            "statement_timeout": f"{_STATEMENT_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{_STATEMENT_SECONDS}s",
        },
    )


async def create_schema(pool: asyncpg.Pool[asyncpg.Record], *, prefix: str = "", indexes: Indexes = ()) -> None:
    """Creates what is missing of the table and of the declared composite indexes; several processes may do so at once.

    Args:
        pool: connections with the right to create.
        prefix: put before every collection name of `indexes`.
        indexes: composite indexes by logical collection; a query that none of them serves reads its whole collection.
    """
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(TABLE)
        for collection, fields in indexes:
            await connection.execute(_index(prefix + collection, [(name, direction) for name, direction in fields]))


def _index(collection: str, fields: list[tuple[str, str]]) -> str:
    name = "documents_" + hashlib.sha256(repr((collection, fields)).encode()).hexdigest()[:24]
    orders = {"ASCENDING": "ASC", "DESCENDING": "DESC"}
    columns = [f"{key_expression(field)} {orders[direction]}" for field, direction in fields]
    columns.append(f"id {orders[fields[-1][1]]}")
    # Partial, so that the writes of other collections, claims above all, do not pay for it.
    return (
        f"CREATE INDEX IF NOT EXISTS {name} ON documents ({', '.join(columns)}) WHERE collection = {quoted(collection)}"
    )


async def _keep(_: object) -> None:
    """The store leaves no session state behind, so there is nothing to reset."""
