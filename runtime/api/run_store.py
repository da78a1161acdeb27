"""Where runs are kept: every write by compare-and-set, every unclear answer read back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from runtime.api.problem import unknown_run
from runtime.api.run_record import RunRecord, read_record
from runtime.api.watch import RunWatch
from runtime.contract import names
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import (
    Create,
    Document,
    DocumentExists,
    Documents,
    Key,
    Replace,
    StoreUnavailable,
    Value,
    VersionMismatch,
    Write,
)

TRIES: Final = 8
"""Most reads and commits of one change: more than the writers that one run ever has at a time."""
CALL_SECONDS: Final = 5
"""Longest single call of the store."""
CHANGE_SECONDS: Final = 20
"""Longest change, all tries together."""
FIRST_PAUSE: Final = 0.1
"""Seconds before a second try of an unavailable store; doubles with each. A lost race is tried again at once."""

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Beside:
    """A document that is written in the commit of a record, in place of whatever is there.

    Attributes:
        key: where it is.
        data: without the TTL field, which follows the record's.
    """

    key: Key
    data: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What one look at a record decides.

    Attributes:
        value: for the caller.
        record: the next record; None writes nothing.
        beside: written in the same commit.
        writes: further conditional writes of the same commit, of documents with a life of their own. Where one's
            condition does not hold the step is asked again.
    """

    value: T
    record: RunRecord | None = None
    beside: Sequence[Beside] = ()
    writes: Sequence[Write] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A run as read, with the store's time of the read."""

    record: RunRecord
    read_at: datetime


@dataclass(frozen=True, slots=True)
class _Pending(Generic[T]):
    """A write that was sent: recognised by the new record's `write_id` when its answer was lost."""

    before: RunRecord | None
    after: RunRecord
    value: T


Step = Callable[[RunRecord, datetime], Change[T]]
"""Decides a change from a record and the store time of its read. Pure: it is asked again after every lost race."""


class RunStore:
    """Runs and the documents beside them.

    Args:
        documents: the store.
        clock: for pauses and bounds, and for the time of a record's creation; never for judging a lease.
        watch: told of every write.
        metrics: counts the states that runs reach.
        retention: how long documents are kept after their last write.
    """

    def __init__(
        self, documents: Documents, clock: Clock, watch: RunWatch, metrics: Metrics, retention: timedelta
    ) -> None:
        self._documents = documents
        self._clock = clock
        self._watch = watch
        self._metrics = metrics
        self._retention = retention

    async def get(self, run_id: str) -> Stored:
        """The run.

        Raises:
            Problem: 404 `run_not_found`.
        """
        document = await self._read(run_id)
        if document is None:
            raise unknown_run(run_id)
        return Stored(read_record(document.data), document.read_at)

    async def create(self, record: RunRecord, beside: Sequence[Beside]) -> tuple[RunRecord, bool]:
        """Records a new run, where its id is free.

        Returns:
            The run that is recorded under the id, and whether it is this one.

        Raises:
            StoreUnavailable: it may or may not be recorded; the same call again finds out.
        """

        def decide(stored: Stored | None) -> Change[bool]:
            if stored is None:
                return Change(value=True, record=record, beside=beside)
            return Change(value=stored.record.submission_id == record.submission_id)

        return await self._settle(record.run_id, decide, read_first=False)

    async def change(self, run_id: str, step: Step[T]) -> tuple[RunRecord, T]:
        """Applies a step to a run until its write holds, and returns the run as it then is.

        Raises:
            Problem: 404 `run_not_found`.
            StoreUnavailable: it may or may not be applied; steps are such that the same call again is safe.
        """

        def decide(stored: Stored | None) -> Change[T]:
            if stored is None:
                raise unknown_run(run_id)
            return step(stored.record, stored.read_at)

        return await self._settle(run_id, decide, read_first=True)

    async def _settle(
        self, run_id: str, decide: Callable[[Stored | None], Change[T]], *, read_first: bool
    ) -> tuple[RunRecord, T]:
        last: Exception | None = None
        try:
            async with self._clock.timeout(CHANGE_SECONDS):
                # All of them: a write that seemed lost may still arrive before the one that followed it.
                sent: dict[object, _Pending[T]] = {}
                met = False
                for number in range(TRIES):
                    await self._pause(last, number)
                    try:
                        document = await self._read(run_id) if read_first or number else None
                        mine = None if document is None else sent.get(document.data.get("write_id"))
                        if mine is not None:
                            return self._written(mine)
                        stored = None if document is None else Stored(read_record(document.data), document.read_at)
                        change = decide(stored)
                        if stored is not None and change.record is None:
                            return stored.record, change.value
                        pending = _pending(stored, change)
                        sent[pending.after.write_id] = pending
                        await self._commit(document, pending.after, change, replace_beside=met)
                        return self._written(pending)
                    except (DocumentExists, VersionMismatch, StoreUnavailable) as error:
                        last = error
                        met = met or isinstance(error, DocumentExists)
        except TimeoutError:
            last = last or TimeoutError()
        raise StoreUnavailable(
            f"run {run_id} could not be written within {TRIES} tries and {CHANGE_SECONDS} s"
        ) from last

    async def _read(self, run_id: str) -> Document | None:
        return await self._documents.get(Key(names.RUNS, run_id), timeout=CALL_SECONDS)

    async def _commit(
        self, document: Document | None, record: RunRecord, change: Change[T], *, replace_beside: bool
    ) -> None:
        written_at = self._clock.now() if document is None else document.read_at
        expires_at = record.kept_until(written_at, self._retention)
        data = record.document(expires_at)
        key = Key(names.RUNS, record.run_id)
        writes: list[Write] = [Create(key, data) if document is None else Replace(key, data, document.version)]
        for item in change.beside:
            kept = {**item.data, names.TTL_FIELD: expires_at}
            # What is there belongs to an earlier run of this id, or to an earlier generation: the TTL takes documents
            # one by one, so that a record may go before what stood beside it.
            there = await self._documents.get(item.key, timeout=CALL_SECONDS) if replace_beside else None
            writes.append(Create(item.key, kept) if there is None else Replace(item.key, kept, there.version))
        await self._documents.commit([*writes, *change.writes], timeout=CALL_SECONDS)

    async def _pause(self, last: Exception | None, number: int) -> None:
        if isinstance(last, StoreUnavailable):
            await self._clock.sleep(FIRST_PAUSE * 2 ** (number - 1))

    def _written(self, pending: _Pending[T]) -> tuple[RunRecord, T]:
        before, after = pending.before, pending.after
        self._watch.notify(after.run_id)
        if before is None or before.state is not after.state or before.attempt != after.attempt:
            self._metrics.runs.labels(after.state.value, after.failure_class or "").inc()
            log.info(
                "run_state",
                run_id=after.run_id,
                state=after.state.value,
                before=before.state.value if before is not None else None,
                generation=after.generation,
                attempt=after.attempt,
                failure_class=after.failure_class,
            )
        return after, pending.value


def _pending(stored: Stored | None, change: Change[T]) -> _Pending[T]:
    if change.record is None:
        raise LookupError("a change without a record needs a stored run")
    after = msgspec.structs.replace(change.record, write_id=uuid.uuid4().hex)
    return _Pending(None if stored is None else stored.record, after, change.value)
