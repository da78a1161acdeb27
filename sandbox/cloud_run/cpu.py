"""The CPU of an instance: there while it has something to do for somebody, taken away otherwise where so declared."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.ports.clock import Clock


class Cpu:
    """Stops and continues a process group.

    Args:
        signal_group: sends a signal to all processes of the instance.
        idle: False keeps the CPU allocated for life.
        linger: seconds without a hold after which it is taken away.
        clock: for the linger.
    """

    def __init__(
        self, signal_group: Callable[[signal.Signals], None], *, idle: bool, linger: float, clock: Clock
    ) -> None:
        self._signal_group = signal_group
        self._idle = idle
        self._linger = linger
        self._clock = clock
        self._holds = 0
        self._released_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self.stopped = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """The CPU is there from now to the end of the block; blocks may overlap."""
        self._holds += 1
        self._resume()
        try:
            yield
        finally:
            self._holds -= 1
            if self._idle and not self._holds:
                self._released_at = self._clock.monotonic()
                if self._task is None:
                    self._task = asyncio.create_task(self._take_away(), name="take the CPU away")

    async def keep(self) -> None:
        """Gives the CPU back for good: the instance is ending."""
        self._idle = False
        self._resume()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _resume(self) -> None:
        if self.stopped:
            self.stopped = False
            self._signal_group(signal.SIGCONT)

    async def _take_away(self) -> None:
        while True:
            left = self._released_at + self._linger - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
            elif self._holds:
                # The end of the last hold begins a new linger.
                break
            else:
                self.stopped = True
                self._signal_group(signal.SIGSTOP)
                break
        self._task = None
