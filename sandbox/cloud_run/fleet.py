"""The instances of one revision: when another one starts, when one goes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog

from runtime.contract.errors import HoldfastError
from runtime.ports.clock import Clock

log = structlog.get_logger()

STARTS_AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""More starts at the same time would only make each of them slower on this machine."""
RETRY_MAX: Final = 60.0
"""Longest pause, in seconds, before the minimum is tried again after failed starts; the first is 2 s, then doubled."""
_NEVER_BUSY: Final = 0.001


class Member(Protocol):
    """What a fleet needs of an instance."""

    id: str
    in_flight: int
    idle_since: float
    serving: bool

    async def start(self) -> None:
        """Until it is ready; HoldfastError says why it will not be."""
        ...

    async def stop(self) -> None:
        """Until nothing of it is left."""
        ...


M = TypeVar("M", bound=Member)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many of what.

    Attributes:
        minimum: instances that are kept without requests.
        maximum: most instances.
        concurrency: most requests of one instance at a time.
        idle_after: seconds without a request after which an instance above the minimum goes.
    """

    minimum: int
    maximum: int
    concurrency: int
    idle_after: float


class Fleet(Generic[M]):
    """Instances, from their start to their end.

    Args:
        name: of the revision, for logs.
        limits: see Limits.
        make: a new instance, not started; HoldfastError where it cannot be made.
        clock: for every wait.
        on_change: called when an instance has become ready, has failed to, or has gone.
    """

    def __init__(
        self,
        name: str,
        limits: Limits,
        make: Callable[[], Awaitable[M]],
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self.limits = limits
        self._name = name
        self._make = make
        self._clock = clock
        self._on_change = on_change
        self._ready: list[M] = []
        self._starting: dict[asyncio.Task[None], M | None] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._starts = 0
        self._failed_starts = 0
        self._retry_at = 0.0
        self.mean_start = 0.0
        self.failure: str | None = None

    @property
    def members(self) -> list[M]:
        """All instances that run, the starting ones included."""
        return [*self._ready, *(member for member in self._starting.values() if member is not None)]

    @property
    def hopeless(self) -> bool:
        """Whether no instance runs and none is starting."""
        return not self._ready and not self._starting

    @property
    def busy(self) -> bool:
        """Whether any instance has a request."""
        return any(member.in_flight for member in self._ready)

    async def start(self) -> None:
        """Begins to keep the minimum, and to let idle instances go."""
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self._name}")

    async def stop(self) -> None:
        """Ends every instance."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        for start in self._starting:
            start.cancel()
        while self._ready:
            self._end(self._ready.pop())
        while tasks := {*self._starting, *self._ending}:
            await asyncio.wait(tasks)

    async def prove(self) -> str | None:
        """Starts an instance where none runs, as a deployment does; why it did not become ready, or None."""
        if not self._ready:
            self.grow(1)
            await asyncio.wait(set(self._starting), return_when=asyncio.FIRST_COMPLETED)
        return self.failure

    def free(self) -> M | None:
        """The instance with the most room for a request; None where all are full."""
        fit = [m for m in self._ready if m.serving and m.in_flight < self.limits.concurrency]
        return min(fit, key=lambda member: member.in_flight, default=None)

    def grow(self, wanted: int) -> None:
        """Starts instances until `wanted` are starting, as far as the limits allow."""
        starting = len(self._starting)
        room = self.limits.maximum - len(self._ready) - starting
        for _ in range(min(wanted - starting, room, STARTS_AT_ONCE - starting)):
            task = asyncio.create_task(self._start_one(), name=f"start of {self._name}")
            self._starting[task] = None
            task.add_done_callback(self._start_ended)

    def gone(self, member: M) -> None:
        """The process of an instance has ended by itself."""
        if member in self._ready:
            self._ready.remove(member)
            self._end(member)
            self._changed.set()
            self._on_change()

    async def _start_one(self) -> None:
        task, began = asyncio.current_task(), self._clock.monotonic()
        try:
            member = await self._make()
            if task is not None:
                self._starting[task] = member
            await member.start()
        except HoldfastError as error:
            self._failed(str(error))
            return
        self.failure, self._failed_starts = None, 0
        self._starts += 1
        self.mean_start += (self._clock.monotonic() - began - self.mean_start) / self._starts
        self._ready.append(member)

    def _failed(self, reason: str) -> None:
        self.failure = reason
        self._failed_starts += 1
        self._retry_at = self._clock.monotonic() + min(RETRY_MAX, 2.0**self._failed_starts)
        log.error("instance_start_failed", revision=self._name, detail=reason)

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        del self._starting[task]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._failed(f"{type(error).__name__}: {error}")
        self._changed.set()
        self._on_change()

    def _end(self, member: M) -> None:
        task = asyncio.create_task(member.stop(), name=f"end of {member.id}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _keep(self) -> None:
        while True:
            self._changed.clear()
            wait = self._let_idle_go()
            missing = self.limits.minimum - len(self._ready) - len(self._starting)
            backoff = self._retry_at - self._clock.monotonic() if self._failed_starts else 0.0
            if missing > 0 and backoff <= 0:
                self.grow(len(self._starting) + missing)
            elif missing > 0:
                wait = min(wait, backoff)
            try:
                async with self._clock.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _let_idle_go(self) -> float:
        """Ends instances that were idle for long enough; seconds until the next one may be."""
        now, next_ = self._clock.monotonic(), self.limits.idle_after
        spare = len(self._ready) - self.limits.minimum
        for member in sorted(self._ready, key=lambda member: member.idle_since):
            left = member.idle_since + self.limits.idle_after - now
            if member.in_flight or spare <= 0:
                continue
            if left > 0:
                next_ = min(next_, left)
                continue
            spare -= 1
            self._ready.remove(member)
            self._end(member)
        return max(next_, _NEVER_BUSY)
