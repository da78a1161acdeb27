"""What one run of a flow may use, all its sub flows together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.execution.flow.faults import FlowLimit
from runtime.execution.flow.limits import RUN_CONCURRENCY, STATE_BYTES, STEPS, YIELD_BYTES, YIELD_WEIGHT
from runtime.ports.clock import Clock


class RunBudget:
    """Counts steps, held bytes and workers, and gives the loop its turns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._weight = 0
        self._held = 0
        self._workers = 0
        self.steps = 0

    async def step(self) -> None:
        """Begins a node or an item.

        Raises:
            FlowLimit: the run took too many.
        """
        self.steps += 1
        if self.steps > STEPS:
            raise FlowLimit(f"the run took more than {STEPS} steps; does a loop of nodes never end?")
        await self._spend(1)

    async def hold(self, size: int, instead_of: int = 0) -> None:
        """Counts a value that is kept, in place of one that is kept no longer.

        Raises:
            FlowLimit: the run keeps too much.
        """
        self._held += size - instead_of
        if self._held > STATE_BYTES:
            raise FlowLimit(f"the run keeps more than {STATE_BYTES} bytes of values at one time")
        await self._spend(size // YIELD_BYTES)

    def release(self, size: int) -> None:
        """Values that are kept no longer."""
        self._held -= size

    @contextmanager
    def workers(self, wanted: int) -> Iterator[int]:
        """How many items may be worked at a time; at least 1, which is the caller itself."""
        granted = max(1, min(wanted, RUN_CONCURRENCY - self._workers))
        self._workers += granted
        try:
            yield granted
        finally:
            self._workers -= granted

    async def _spend(self, weight: int) -> None:
        self._weight += weight
        if self._weight >= YIELD_WEIGHT:
            self._weight = 0
            await self._clock.sleep(0)
