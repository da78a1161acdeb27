"""Requests that want an instance of one revision: who takes which, who waits, who is sent away."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic

import structlog

from runtime.contract.errors import Decision, HoldfastError
from runtime.ports.clock import Clock
from sandbox.cloud_run.fleet import Fleet, Limits, M

log = structlog.get_logger()

WAIT_SECONDS: Final = 10.0
WAIT_STARTS: Final = 3.5
"""A request waits for an instance for 10 s, or 3.5 times the mean start, whichever is longer (Cloud Run's page on
maximum instances)."""


class NoCapacity(HoldfastError):
    """Every instance is busy, and no more may start."""

    code = "no_capacity"
    decision = Decision.RETRY


class NoInstance(HoldfastError):
    """No instance is there, and none would start."""

    code = "no_instance"
    decision = Decision.RETRY


class Pool(Generic[M]):
    """A fleet and the requests that wait for it.

    Args:
        name: of the revision.
        limits: see Limits.
        make: see Fleet.
        clock: for every wait.
    """

    def __init__(self, name: str, limits: Limits, make: Callable[[], Awaitable[M]], clock: Clock) -> None:
        self.fleet: Fleet[M] = Fleet(name, limits, make, clock, self.refresh)
        self._name = name
        self._clock = clock
        self._waiters: deque[asyncio.Future[M]] = deque()
        self._closed = False
        self._quiet = asyncio.Event()

    @property
    def longest_wait(self) -> float:
        """Seconds that a request waits for an instance."""
        return max(WAIT_SECONDS, WAIT_STARTS * self.fleet.mean_start)

    async def acquire(self) -> M:
        """An instance with room for a request; every acquired one is released.

        Raises:
            NoCapacity: none became free in time.
            NoInstance: none would start.
        """
        if self._closed:
            raise NoInstance(f"{self._name} is stopped")
        if not self._waiters and (member := self.fleet.free()) is not None:
            member.in_flight += 1
            return member
        waiter: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._grow()
        seconds = self.longest_wait
        try:
            async with self._clock.timeout(seconds):
                return await waiter
        except BaseException as error:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            if isinstance(error, TimeoutError):
                raise NoCapacity(f"no instance of {self._name} became free within {seconds:g} s") from None
            raise

    def release(self, member: M) -> None:
        """Gives room back."""
        member.in_flight -= 1
        member.idle_since = self._clock.monotonic()
        if self._waiters:
            self._hand_out()
        if self._closed:
            self._quiet.set()

    def refresh(self) -> None:
        """The fleet has changed, or one of its instances serves again."""
        self._hand_out()
        if self._waiters and self.fleet.hopeless and self.fleet.failure is not None:
            self._refuse(self.fleet.failure)
        elif self.fleet.failure is None:
            self._grow()

    async def drain(self, seconds: float) -> None:
        """Takes no more requests, lets those in flight end, for `seconds` at most, then stops."""
        self._closed = True
        try:
            async with self._clock.timeout(seconds):
                while self.fleet.busy or self._waiters:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            log.warning("drain_incomplete", revision=self._name)
        await self.stop()

    async def stop(self) -> None:
        """Ends every instance; requests that wait are refused."""
        self._closed = True
        self._refuse("it was stopped")
        await self.fleet.stop()

    def _grow(self) -> None:
        if self._waiters and not self._closed:
            self.fleet.grow(math.ceil(len(self._waiters) / self.fleet.limits.concurrency))

    def _hand_out(self) -> None:
        while self._waiters and (member := self.fleet.free()) is not None:
            waiter = self._waiters.popleft()
            if not waiter.done():
                member.in_flight += 1
                waiter.set_result(member)

    def _refuse(self, reason: str) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(NoInstance(f"{self._name} has no instance: {reason}"))
