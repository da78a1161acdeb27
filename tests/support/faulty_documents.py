"""A document store whose calls fail in the order that a test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from runtime.ports.documents import (
    Document,
    Documents,
    Key,
    Query,
    StoreMisconfigured,
    StoreUnavailable,
    Version,
    Write,
)


class Fault(StrEnum):
    """What goes wrong with one call."""

    DOWN = "down"
    """Refused before anything happened, and said so."""
    REQUEST_LOST = "request lost"
    """Nothing happened; the caller cannot know."""
    ANSWER_LOST = "answer lost"
    """It happened; the caller cannot know."""
    MISCONFIGURED = "misconfigured"
    CANCELLED_BEFORE = "cancelled before"
    CANCELLED_AFTER = "cancelled after"


Choose = Callable[[int, str, Sequence[Write]], Fault | None]
Meanwhile = Callable[[], Awaitable[object]]


class FaultyDocuments:
    """Wraps a store.

    Attributes:
        choose: decides by call number (from 0), `get` or `commit`, and its writes.
        before: call number -> what happens just before it.
        calls: `get` or `commit`, in order.
    """

    def __init__(self, inner: Documents) -> None:
        self.inner = inner
        self.choose: Choose = lambda _number, _kind, _writes: None
        self.before: dict[int, Meanwhile] = {}
        self.calls: list[str] = []

    def at(self, **faults: Fault) -> None:
        """Orders faults by call number: `at(_0=Fault.DOWN)`."""
        by_number = {int(name.removeprefix("_")): fault for name, fault in faults.items()}
        self.choose = lambda number, _kind, _writes: by_number.get(number)

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        after = await self._meet("get", ())
        document = await self.inner.get(key, timeout=timeout)
        after()
        return document

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        after = await self._meet("commit", writes)
        versions = await self.inner.commit(writes, timeout=timeout)
        after()
        return versions

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        return await self.inner.query(query, timeout=timeout)

    async def close(self) -> None:
        await self.inner.close()

    async def _meet(self, kind: str, writes: Sequence[Write]) -> Callable[[], None]:
        number = len(self.calls)
        self.calls.append(kind)
        meanwhile = self.before.pop(number, None)
        if meanwhile is not None:
            await meanwhile()
        fault = self.choose(number, kind, writes)
        match fault:
            case Fault.DOWN:
                raise StoreUnavailable("down", unclear=False)
            case Fault.REQUEST_LOST:
                raise StoreUnavailable("request lost", unclear=True)
            case Fault.MISCONFIGURED:
                raise StoreMisconfigured("the database is in Datastore mode")
            case Fault.CANCELLED_BEFORE:
                raise asyncio.CancelledError
            case _:
                return lambda: _after(fault)


def _after(fault: Fault | None) -> None:
    if fault is Fault.ANSWER_LOST:
        raise StoreUnavailable("answer lost", unclear=True)
    if fault is Fault.CANCELLED_AFTER:
        raise asyncio.CancelledError
