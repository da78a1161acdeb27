"""Documents in this process's memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtime.adapters.document_rules import check_key, checked_writes
from runtime.adapters.order_key import order_key, type_bounds
from runtime.adapters.query_rules import Indexes, checked_query
from runtime.ports.clock import Clock
from runtime.ports.documents import (
    Create,
    Delete,
    Document,
    DocumentExists,
    Filter,
    Key,
    Operator,
    Query,
    Replace,
    StoreUnavailable,
    Value,
    Version,
    VersionMismatch,
    Write,
)


@dataclass(frozen=True, slots=True)
class _Row:
    data: dict[str, Value]
    version: Version
    updated_at: datetime


class MemoryDocuments:
    """A document store that lives as long as the object.

    Store time is the clock's wall time. Every call gives the loop one turn before it looks at the store, so that
    callers meet the interleavings that a real store allows; what follows happens at once.

    Args:
        clock: the store's time.
        prefix: put before every collection name; "" means none.
        indexes: declared composite indexes, by logical collection; None means that they are not checked.
    """

    def __init__(self, clock: Clock, prefix: str = "", indexes: Indexes | None = None) -> None:
        self._clock = clock
        self._prefix = prefix
        self._indexes = indexes
        self._collections: dict[str, dict[str, _Row]] = {}
        self._versions = itertools.count(1)
        self._closed = False

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """See Documents."""
        check_key(key)
        await self._turn(timeout)
        row = self._rows(key.collection).get(key.id)
        return None if row is None else self._document(key, row)

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """See Documents."""
        datas = checked_writes(writes, self._prefix)
        await self._turn(timeout)
        for write in writes:
            self._check(write)
        now = self._clock.now()
        return [self._apply(write, data, now) for write, data in zip(writes, datas, strict=True)]

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """See Documents."""
        query = checked_query(query, self._indexes)
        await self._turn(timeout)
        rows = self._rows(query.collection)
        conditions = [_condition(each) for each in query.where]
        found = sorted(
            (_position(query, id_, row), id_) for id_, row in rows.items() if _matches(query, row, conditions)
        )
        if query.descending:
            found.reverse()
        return [self._document(Key(query.collection, id_), rows[id_]) for _, id_ in found[: query.limit]]

    async def delete_expired(self, collections: Sequence[str], field: str) -> int:
        """Deletes the documents whose time `field` has passed, as a TTL policy does, and returns how many."""
        await self._turn(1)
        due = order_key(self._clock.now())
        gone = 0
        for rows in map(self._rows, collections):
            for id_ in [id_ for id_, row in rows.items() if _within(row.data, field, due)]:
                del rows[id_]
                gone += 1
        return gone

    async def close(self) -> None:
        """See Documents."""
        self._closed = True

    async def _turn(self, timeout: float) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", unclear=False)
        if timeout <= 0:
            raise StoreUnavailable(f"no answer within {timeout} s", unclear=False)
        await asyncio.sleep(0)

    def _rows(self, collection: str) -> dict[str, _Row]:
        return self._collections.setdefault(self._prefix + collection, {})

    def _check(self, write: Write) -> None:
        row = self._rows(write.key.collection).get(write.key.id)
        if isinstance(write, Create):
            if row is not None:
                raise DocumentExists(f"{write.key} exists")
        elif row is None or row.version != write.version:
            raise VersionMismatch(f"{write.key} has not version {write.version} any more")

    def _apply(self, write: Write, data: dict[str, Value], now: datetime) -> Version:
        rows = self._rows(write.key.collection)
        match write:
            case Delete():
                del rows[write.key.id]
                return Version("")
            case Create() | Replace():
                version = Version(str(next(self._versions)))
                rows[write.key.id] = _Row(data, version, now)
                return version

    def _document(self, key: Key, row: _Row) -> Document:
        data = {name: _copied(value) for name, value in row.data.items()}
        return Document(key, data, row.version, row.updated_at, self._clock.now())


Condition = tuple[str, Callable[[bytes], bool]]
"""A field, and what its order key must be."""


def _matches(query: Query, row: _Row, conditions: Sequence[Condition]) -> bool:
    if query.order_by is not None and query.order_by not in row.data:
        return False
    return all(field in row.data and holds(order_key(row.data[field])) for field, holds in conditions)


def _position(query: Query, id_: str, row: _Row) -> tuple[bytes, bytes]:
    return b"" if query.order_by is None else order_key(row.data[query.order_by]), id_.encode()


def _condition(condition: Filter) -> Condition:
    bound = order_key(condition.value)
    first, end = type_bounds(bound)
    tests: dict[Operator, Callable[[bytes], bool]] = {
        Operator.EQUAL: lambda key: key == bound,
        Operator.LESS: lambda key: first <= key < bound,
        Operator.LESS_OR_EQUAL: lambda key: first <= key <= bound,
        Operator.GREATER: lambda key: bound < key < end,
        Operator.GREATER_OR_EQUAL: lambda key: bound <= key < end,
    }
    return condition.field, tests[condition.operator]


def _within(data: Mapping[str, Value], field: str, due: bytes) -> bool:
    return field in data and type_bounds(due)[0] <= order_key(data[field]) <= due


def _copied(value: Value) -> Value:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return value
