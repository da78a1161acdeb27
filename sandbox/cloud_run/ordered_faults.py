"""Faults inside an instance: wraps what its role is given, so that the role itself has no hooks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from runtime.adapters.clock import SystemClock
from runtime.ports.clock import Clock
from runtime.ports.documents import Create, Delete, Document, Documents, Key, Query, StoreUnavailable, Version, Write
from sandbox.cloud_run.faults import Action, Fault, Point


def kill_myself() -> None:
    """Ends this process as a crash does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


class OrderedFaults:
    """Counts the calls of one instance and strikes where a fault is due.

    Args:
        faults: what is ordered.
        clock: for delays.
        kill: ends the process.
    """

    def __init__(self, faults: Iterable[Fault], clock: Clock, kill: Callable[[], None] = kill_myself) -> None:
        self._faults = [_Counted(fault) for fault in faults]
        self._clock = clock
        self._kill = kill

    async def at(self, point: Point, names: Sequence[str], error: Callable[[str], Exception]) -> None:
        """Applies what is due.

        Args:
            point: where the call is.
            names: what it is called; a fault matches a part of any of them.
            error: what a failing call raises here, from a text.

        Raises:
            Exception: made by `error`, where one is ordered.
        """
        for counted in self._faults:
            if not counted.due(point, names):
                continue
            match counted.fault.action:
                case Action.DELAY:
                    await self._clock.sleep(counted.fault.seconds)
                case Action.KILL:
                    self._kill()
                case Action.ERROR:
                    raise error(f"ordered fault at {point}: {names[0]}")
                case Action.SKEW:
                    """No call: see `skewed_clock`."""


class SkewedClock(SystemClock):
    """A wall clock that is wrong; what is measured inside the process is not.

    Args:
        seconds: by which it is fast.
    """

    def __init__(self, seconds: float) -> None:
        self._wrong = timedelta(seconds=seconds)

    def now(self) -> datetime:
        """See Clock."""
        return super().now() + self._wrong


def skewed_clock(faults: Iterable[Fault]) -> Clock | None:
    """The clock that is ordered for an instance; None where none is."""
    wrong = [fault.seconds for fault in faults if fault.action is Action.SKEW]
    return SkewedClock(sum(wrong)) if wrong else None


class _Counted:
    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._calls = 0

    def due(self, point: Point, names: Sequence[str]) -> bool:
        if self.fault.point is not point or not any(self.fault.match in name for name in names):
            return False
        self._calls += 1
        return self.fault.nth in {0, self._calls}


class FaultyDocuments:
    """A document store at which ordered faults strike.

    Args:
        inner: the store.
        faults: what is ordered.
    """

    def __init__(self, inner: Documents, faults: OrderedFaults) -> None:
        self._inner = inner
        self._faults = faults

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """See Documents."""
        names = [f"get {key.collection}/{key.id}"]
        await self._at(Point.DOCUMENTS_BEFORE, names)
        found = await self._inner.get(key, timeout=timeout)
        await self._at(Point.DOCUMENTS_AFTER, names)
        return found

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """See Documents."""
        names = [_write_name(write) for write in writes]
        await self._at(Point.DOCUMENTS_BEFORE, names)
        versions = await self._inner.commit(writes, timeout=timeout)
        await self._at(Point.DOCUMENTS_AFTER, names)
        return versions

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """See Documents."""
        names = [f"query {query.collection}"]
        await self._at(Point.DOCUMENTS_BEFORE, names)
        found = await self._inner.query(query, timeout=timeout)
        await self._at(Point.DOCUMENTS_AFTER, names)
        return found

    async def close(self) -> None:
        """See Documents."""
        await self._inner.close()

    async def _at(self, point: Point, names: Sequence[str]) -> None:
        await self._faults.at(point, names, StoreUnavailable)


class FaultyHttp:
    """Middleware of an aiohttp client session, at whose requests ordered faults strike.

    Args:
        faults: what is ordered.
    """

    def __init__(self, faults: OrderedFaults) -> None:
        self._faults = faults

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Sends a request on."""
        names = [f"{request.method} {request.url.host}{request.url.path}"]
        await self._faults.at(Point.HTTP_BEFORE, names, aiohttp.ClientConnectionError)
        response = await handler(request)
        try:
            await self._faults.at(Point.HTTP_AFTER, names, aiohttp.ClientConnectionError)
        except BaseException:
            response.close()
            raise
        return response


def _write_name(write: Write) -> str:
    match write:
        case Create():
            verb = "create"
        case Delete():
            verb = "delete"
        case _:
            verb = "replace"
    return f"{verb} {write.key.collection}/{write.key.id}"
