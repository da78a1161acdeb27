"""A message that nobody could work for nineteen deliveries is worked on its twentieth, over the real broker.

The other end, a message that is never worked, is on the whole stack: `tests/flow/spine/test_dead_letters.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runtime.adapters.clock import SystemClock
from runtime.adapters.memory import MemoryDocuments
from runtime.identity.key_cache import LIFETIME, KeyCache
from runtime.ports.tokens import KeySource, TokenUnavailable
from runtime.worker.workload import Ended
from tests.support.deliveries import completed
from tests.support.faulty_documents import Fault, FaultyDocuments
from tests.support.pushed_worker import PushedWorker, pushed_worker
from tests.support.pushing_brokers import Ground, PushingBroker, ground, sandbox_broker
from tests.support.worlds import WORKER_URL

DELIVERIES: Final = 20
REASONS: Final = ("claim_store_unavailable", "push_key_set_unavailable", "worker_draining", "run_lease_busy")


class LateClock(SystemClock):
    """A clock that jumps ahead when it is told to."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Keys:
    """A key server that is away when it is told to be."""

    def __init__(self, inner: KeySource) -> None:
        self._inner = inner
        self.away = False

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        if self.away:
            raise TokenUnavailable("the key server is away")
        return await self._inner.fetch()


class Misfortunes:
    """Has one delivery after another fail for a reason that is not its message's."""

    def __init__(self, below: Ground, broker: PushingBroker) -> None:
        self.clock, self.keys = LateClock(), Keys(below.keys)
        self.cache = KeyCache(self.keys, self.clock)
        self.store = FaultyDocuments(MemoryDocuments(SystemClock()))
        self._broker = broker
        self._left = itertools.islice(itertools.cycle(REASONS), DELIVERIES - 1)
        self.workers: tuple[PushedWorker, PushedWorker]

    def arrange(self) -> None:
        """What the next delivery meets."""
        reason = next(self._left, "completed")
        worker, draining = self.workers
        down = reason == "claim_store_unavailable"
        self.store.choose = lambda _number, _kind, _writes: Fault.DOWN if down else None
        self.keys.away = reason == "push_key_set_unavailable"
        self.clock.ahead += LIFETIME + 1  # what was fetched before is too old, and may be fetched anew
        address = draining.address if reason == "worker_draining" else worker.address
        self._broker.hosts.add(WORKER_URL.removeprefix("https://"), address)
        worker.workload.run = busy if reason == "run_lease_busy" else completed


async def busy(_stop: asyncio.Event) -> Ended:
    return Ended("run_lease_busy")


async def test_a_message_nacked_nineteen_times_for_reasons_not_its_own_is_worked_on_its_twentieth_delivery(
    tmp_path: Path,
) -> None:
    """BR-50"""
    async with ground(tmp_path) as below, sandbox_broker(below, tmp_path, DELIVERIES) as broker:
        fate = Misfortunes(below, broker)
        async with (
            pushed_worker(
                below, broker, fate.store, keys=fate.cache, before_answer=fate.arrange, broker_attempts=DELIVERIES
            ) as worker,
            pushed_worker(
                below, broker, fate.store, before_answer=fate.arrange, broker_attempts=DELIVERIES
            ) as draining,
        ):
            draining.lifecycle.drain()
            fate.workers = worker, draining
            fate.arrange()
            message_id = await broker.publish(b"{}")
            await broker.idle()
            assert worker.answers | draining.answers == {
                "claim_store_unavailable": 5, "push_key_set_unavailable": 5, "worker_draining": 5, "run_lease_busy": 4,
                "completed": 1,
            }  # fmt: skip
            claim = await worker.claim(message_id)
            assert (claim["state"], claim["attempts"], claim["excused"]) == ("completed", 5, 4)
            assert await worker.letter(message_id) == {}
