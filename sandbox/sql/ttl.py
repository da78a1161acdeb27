"""Deletes documents whose time has come, in the collections for which the program declares a TTL policy.

Late, as Firestore does it: an expired document may be read until the sweep that finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from runtime.ports.clock import Clock
from runtime.ports.documents import StoreError
from sandbox.world import FIELD, World

log = structlog.get_logger()


class ExpiringDocuments(Protocol):
    """A store that can delete by time; PostgresDocuments without a prefix is one."""

    async def delete_expired(self, collections: Sequence[str], field: str, *, timeout: float = 60) -> int:
        """Deletes the documents whose time in `field` has passed on the store's clock, and returns how many."""
        ...


def ttl_policies(world: World) -> Mapping[str, list[str]]:
    """Field -> collections for which a TTL policy on it is declared; a field without `ttlConfig` has none."""
    found: dict[str, list[str]] = {}
    for row in world.of_type(FIELD):
        if row.inputs.get("ttlConfig") is not None:
            found.setdefault(str(row.inputs["field"]), []).append(str(row.inputs["collection"]))
    return found


class TtlSweeper:
    """Sweeps every declared policy, again and again.

    Args:
        world: read anew at each sweep.
        store: where the documents are; the caller closes it.
        clock: for the waits between sweeps.
        period: seconds between sweeps; Firestore takes up to a day.
    """

    def __init__(self, world: World, store: ExpiringDocuments, clock: Clock, *, period: float = 60) -> None:
        self._world = world
        self._store = store
        self._clock = clock
        self._period = period
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins sweeping; the first sweep comes at once."""
        self._task = asyncio.create_task(self._run(), name="ttl sweeps")

    async def stop(self) -> None:
        """Ends sweeping; a sweep under way is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def sweep(self) -> int:
        """One pass over all policies; returns how many documents went.

        Raises:
            StoreError: the store failed; the next sweep takes up what is left.
        """
        policies = ttl_policies(self._world)
        return sum([await self._store.delete_expired(names, field) for field, names in policies.items()])

    async def _run(self) -> None:
        while True:
            try:
                deleted = await self.sweep()
                if deleted:
                    log.info("documents_expired", count=deleted)
            except StoreError as error:
                log.warning("ttl_sweep_failed", code=error.code, detail=str(error))
            await self._clock.sleep(self._period)
