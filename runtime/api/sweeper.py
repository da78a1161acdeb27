"""What the every-minute tick does: publishes what is unpublished, gives up what nobody will end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final

import structlog

from runtime.api.dispatch import Dispatcher
from runtime.api.payloads import Payloads
from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.api.run_store import CALL_SECONDS, Change, RunStore
from runtime.api.submission import mark
from runtime.api.transitions import fail, give_up, reserve_publication
from runtime.contract import names
from runtime.contract.states import FailureClass
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import Documents, Filter, Operator, Query

BATCH: Final = 200
"""Most runs of one tick; the next tick goes on."""
PARALLEL: Final = 8
BEGIN_SECONDS: Final = 25
"""After this no further run is begun; with the last ones a tick takes less than the minute to the next."""
RUN_SECONDS: Final = 25
"""Longest work on one run: its change, its publication with retries, its mark."""

log = structlog.get_logger()


class Swept(StrEnum):
    """What was done with one run."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not_published"
    """The broker did not take it; it is due again in a minute."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"
    """Its payload is gone."""
    PASSED = "passed"
    """Nothing was to do: another writer was first."""
    ERROR = "error"
    """It could not be looked after; it stays due."""


class Sweeper:
    """Looks after runs that are due, at most BATCH at a time and in bounded time. Two at once do no harm.

    Args:
        documents: for the query.
        runs: for every change.
        dispatcher: publishes.
        clock: for the query's cut-off and the bounds; each run is then judged by the store's time.
        metrics: counts what was done.
        draining: no further run is begun once it is set.
    """

    def __init__(
        self,
        documents: Documents,
        runs: RunStore,
        dispatcher: Dispatcher,
        clock: Clock,
        metrics: Metrics,
        draining: asyncio.Event,
    ) -> None:
        self._documents = documents
        self._payloads = Payloads(documents)
        self._runs = runs
        self._dispatcher = dispatcher
        self._clock = clock
        self._metrics = metrics
        self._draining = draining

    async def tick(self) -> dict[str, int]:
        """One sweep; how many runs met each end, and `left`, those of the batch that were not begun.

        Raises:
            StoreError: the runs that are due could not be read.
        """
        due = iter(await self._due())
        stop_at = self._clock.monotonic() + BEGIN_SECONDS
        done: Counter[Swept] = Counter()
        async with asyncio.TaskGroup() as group:
            for number in range(PARALLEL):
                group.create_task(self._work(due, stop_at, done), name=f"sweep {number}")
        counts = {**{action.value: done[action] for action in Swept}, "left": sum(1 for _ in due)}
        log.info("swept", **counts)
        return counts

    async def _due(self) -> list[str]:
        query = Query(
            names.RUNS,
            where=[Filter("sweep_at", Operator.LESS_OR_EQUAL, self._clock.now())],
            order_by="sweep_at",
            limit=BATCH,
        )
        return [document.key.id for document in await self._documents.query(query, timeout=CALL_SECONDS)]

    async def _work(self, due: Iterator[str], stop_at: float, done: Counter[Swept]) -> None:
        while self._clock.monotonic() < stop_at and not self._draining.is_set():
            run_id = next(due, None)
            if run_id is None:
                return
            action = await self._guarded(run_id)
            done[action] += 1
            self._metrics.swept.labels(action.value).inc()

    async def _guarded(self, run_id: str) -> Swept:
        try:
            async with self._clock.timeout(RUN_SECONDS):
                return await self._sweep(run_id)
        except Problem:
            return Swept.PASSED  # the record has gone between the query and the read
        except Exception:
            # One run's fault must not keep the others waiting.
            log.exception("sweep_failed", run_id=run_id)
            return Swept.ERROR

    async def _sweep(self, run_id: str) -> Swept:
        record, action = await self._runs.change(run_id, _decide)
        if action is not None:
            return action
        payload = await self._payloads.payload(run_id)
        if payload is None:
            return await self._fail(run_id)
        if not await self._dispatcher.publish(record, payload):
            return Swept.NOT_PUBLISHED
        await mark(self._runs, record)
        return Swept.PUBLISHED

    async def _fail(self, run_id: str) -> Swept:
        error = "the run's payload is gone, so that it cannot be published"

        def step(record: RunRecord, now: datetime) -> Change[Swept]:
            failed = fail(record, FailureClass.DISPATCH_ERROR, error, now)
            return Change(Swept.PASSED if failed is None else Swept.FAILED, failed)

        return (await self._runs.change(run_id, step))[1]


def _decide(record: RunRecord, now: datetime) -> Change[Swept | None]:
    """What is due at a store time; None as the value means that the caller now publishes."""
    reserved = reserve_publication(record, now)
    if reserved is not None:
        return Change(None, reserved)
    ended = give_up(record, now)
    if ended is None:
        return Change(Swept.PASSED)
    return Change(Swept(ended.state.value), ended)
