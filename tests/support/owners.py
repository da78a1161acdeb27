"""Worker processes that share a store and a world clock: each can be wrong about the time, stall, crash, or have its
calls to the store go wrong.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from runtime.adapters.clock import ManualClock
from runtime.ports.clock import Timer
from runtime.ports.documents import Document, Documents, Key, Query, StoreUnavailable, Version, Write

T = TypeVar("T")

SLOW_SECONDS: Final = 4.0
"""Below every limit of a call."""
LATE_SECONDS: Final = 30.0
"""How long after its caller gave up a write is applied."""


class Trouble(StrEnum):
    """What goes wrong with one call to the store."""

    DOWN = "down"
    """Refused before anything happened, and said so."""
    REQUEST_LOST = "request lost"
    """Nothing happened; the caller cannot know."""
    ANSWER_LOST = "answer lost"
    """It happened; the caller cannot know."""
    SLOW = "slow"
    LATE = "late"
    """The caller gives up; it happens afterwards."""
    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"


class OwnerClock:
    """One process's clock: runs with the world's, may be wrong about the time of day, and stands still in a stall."""

    def __init__(self, world: ManualClock) -> None:
        self._world = world
        self._wrong = timedelta()
        self._held: list[Callable[[], None]] | None = None

    @property
    def stalled(self) -> bool:
        return self._held is not None

    def jump(self, seconds: float) -> None:
        """Moves the wall clock alone."""
        self._wrong += timedelta(seconds=seconds)

    def stall(self) -> None:
        """The process gets no CPU from now on."""
        self._held = self._held or []

    def go_on(self) -> None:
        """It gets CPU again: everything that has become due meanwhile is due now, in its order."""
        held, self._held = self._held or [], None
        for action in held:
            action()

    def now(self) -> datetime:
        return self._world.now() + self._wrong

    def timestamp(self) -> float:
        return self.now().timestamp()

    def monotonic(self) -> float:
        return self._world.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._after(seconds, lambda: None if reached.done() else reached.set_result(None))
        await reached

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        if seconds is None or seconds <= 0:
            return self._world.timeout(seconds)
        scope = asyncio.timeout(None)

        def expire() -> None:
            # A scope that was left refuses to be rescheduled: then nothing waits for it.
            try:
                scope.reschedule(asyncio.get_running_loop().time())
            except RuntimeError:
                return

        self._after(seconds, expire)
        return scope

    def call_later(self, seconds: float, action: Callable[[], object]) -> Timer:
        later = asyncio.get_running_loop().create_future()

        def due() -> None:
            if not later.done():
                later.cancel()
                action()

        self._after(seconds, due)
        return later

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        def due() -> None:
            if self._held is None:
                action()
            else:
                self._held.append(action)

        self._world._at(self._world.monotonic() + seconds, due)


class OwnerStore:
    """One process's way to the store.

    Attributes:
        troubles: of its next calls, in order.
        cut_until: until then, on the clock, nothing reaches the store.
        dead: the process is gone: no call of it does anything any more.
        on_death: called when one of the troubles has ended the process.
        late: writes under way whose caller has given up.
    """

    def __init__(self, inner: Documents, clock: OwnerClock, world: ManualClock) -> None:
        self._inner = inner
        self._clock = clock
        self._world = world
        self.troubles: deque[Trouble] = deque()
        self.cut_until = 0.0
        self.dead = False
        self.on_death: Callable[[], None] = lambda: None
        self.late: set[asyncio.Task[None]] = set()

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        return await self._call(lambda: self._inner.get(key, timeout=timeout), timeout)

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        return await self._call(lambda: self._inner.commit(writes, timeout=timeout), timeout)

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        return await self._call(lambda: self._inner.query(query, timeout=timeout), timeout)

    async def close(self) -> None:
        """Others use the store too."""

    async def _call(self, perform: Callable[[], Awaitable[T]], timeout: float) -> T:
        self._live()
        if self._clock.monotonic() < self.cut_until:
            raise StoreUnavailable("unreachable", unclear=True)
        match self.troubles.popleft() if self.troubles else None:
            case Trouble.DOWN:
                raise StoreUnavailable("down", unclear=False)
            case Trouble.REQUEST_LOST:
                raise StoreUnavailable("request lost", unclear=True)
            case Trouble.ANSWER_LOST:
                await perform()
                raise StoreUnavailable("answer lost", unclear=True)
            case Trouble.SLOW:
                await self._clock.sleep(min(SLOW_SECONDS, timeout))
            case Trouble.LATE:
                writing = asyncio.create_task(self._later(perform, timeout))
                self.late.add(writing)
                writing.add_done_callback(self.late.discard)
                await self._clock.sleep(timeout)
                raise StoreUnavailable("no answer in time", unclear=True)
            case Trouble.KILLED_BEFORE:
                self.on_death()
            case Trouble.KILLED_AFTER:
                await perform()
                self.on_death()
            case None:
                pass
        self._live()
        answer = await perform()
        self._live()
        return answer

    async def _later(self, perform: Callable[[], Awaitable[object]], timeout: float) -> None:
        await self._world.sleep(timeout + LATE_SECONDS)
        try:
            await perform()
        except Exception:  # noqa: BLE001 - nobody is there to hear of it
            return

    def _live(self) -> None:
        if self.dead:
            raise asyncio.CancelledError
