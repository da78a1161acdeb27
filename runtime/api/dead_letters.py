"""What the dead-letter topic tells the API: a letter for every message, and an end for every run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog

from runtime.api.dead_message import DeadMessage, read_dead_message
from runtime.api.json_value import off_loop
from runtime.api.letter_store import LetterStore, StoredLetter, creation
from runtime.api.problem import Problem, unavailable
from runtime.api.run_record import RunRecord
from runtime.api.run_store import Change, RunStore
from runtime.api.transitions import Ruling, dead_letter, ended_without_work
from runtime.contract.envelope import EnvelopeError
from runtime.contract.names import DEAD_LETTERED
from runtime.contract.settings.words import Workload
from runtime.identity.job_token import JobClaims, JobVerifier
from runtime.observability.metrics import Metrics
from runtime.ports.clock import Clock
from runtime.ports.documents import StoreUnavailable, VersionMismatch

PARALLEL: Final = 2
"""Pushes that are read at a time: one may hold 14 MiB, several times over while it is decoded."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a step found: the ruling, and whether nothing was lost with the message."""

    ruling: Ruling
    spurious: bool = False


class DeadLetters:
    """Records what the broker gave up. Each push may come any number of times.

    Args:
        letters: where letters are.
        runs: where runs are.
        verifier: of job tokens.
        clock: time of new letters.
        metrics: counts new letters, and a writing of which nobody knows as one.
    """

    def __init__(
        self, letters: LetterStore, runs: RunStore, verifier: JobVerifier, clock: Clock, metrics: Metrics
    ) -> None:
        self._letters = letters
        self._runs = runs
        self._verifier = verifier
        self._clock = clock
        self._metrics = metrics
        self.reading = asyncio.Semaphore(PARALLEL)
        """Held while a push is read and handled."""

    async def receive(self, body: bytes, workload: Workload) -> None:
        """Makes sure that a message has its letter, and its run an end. Returning acknowledges the push.

        Raises:
            Problem: 400 `invalid_push` where the body is no push; 503 `run_lease_live` while the run is worked on.
            StoreUnavailable
        """
        now = self._clock.now()
        try:
            message = await off_loop(len(body), lambda: read_dead_message(body, workload, self._verifier, now))
        except EnvelopeError as error:
            raise Problem(400, "invalid_push", str(error)) from None
        known = await self._letters.find(message.letter)
        seen = _Seen(Ruling.ENDED) if message.claims is None else await self._end_run(message, message.claims, known)
        if seen.ruling is Ruling.BUSY:
            raise unavailable("run_lease_live", f"run {message.letter.run_id} is worked on under a live lease")
        if seen.ruling is Ruling.RECORDED:
            if known is None:
                self._tell(message, spurious=False)
            return
        await self._keep(message, known, spurious=seen.spurious)

    async def _end_run(self, message: DeadMessage, claims: JobClaims, known: StoredLetter | None) -> _Seen:
        letter = message.letter if known is None else known.letter

        def step(record: RunRecord, now: datetime) -> Change[_Seen]:
            ruling, after = dead_letter(
                record, claims.job_id, letter.failure_class, letter.last_failure_class, letter.error, now
            )
            if after is None:
                superseded = record.job_id != claims.job_id
                return Change(_Seen(ruling, superseded or not ended_without_work(record)))
            if known is not None:
                return Change(_Seen(ruling), after)
            cause = replace(letter, last_failure_class=after.last_failure_class)
            return Change(_Seen(ruling), after, writes=creation(message.letter_id, cause, message.data))

        try:
            with self._told_if_unclear(message, known, spurious=False):
                return (await self._runs.change(claims.run_id, step))[1]
        except Problem:
            return _Seen(Ruling.ENDED)  # the run's record is gone

    async def _keep(self, message: DeadMessage, known: StoredLetter | None, *, spurious: bool) -> None:
        """Records a letter that ends no run."""
        if known is None:
            letter = replace(message.letter, spurious=spurious)
            with self._told_if_unclear(message, known, spurious=spurious):
                created = await self._letters.create(creation(message.letter_id, letter, message.data))
            if created:
                self._tell(message, spurious=spurious)
        elif spurious and not known.letter.spurious and known.letter.replayed_generation is None:
            try:
                await self._letters.replace(known, replace(known.letter, spurious=True))
            except VersionMismatch:
                raise unavailable("dead_letter_changed", "the letter was written at the same time") from None

    @contextlib.contextmanager
    def _told_if_unclear(self, message: DeadMessage, known: StoredLetter | None, *, spurious: bool) -> Iterator[None]:
        """A letter may have been written by a call of which nobody knows; the next push would find it told already."""
        try:
            yield
        except StoreUnavailable as error:
            if error.unclear and known is None:
                self._tell(message, spurious=spurious)
            raise

    def _tell(self, message: DeadMessage, *, spurious: bool) -> None:
        letter = message.letter
        self._metrics.dead_letters.labels(source=letter.source, failure_class=letter.failure_class.value).inc()
        write = log.warning if spurious else log.error
        write(
            DEAD_LETTERED,
            subscription=letter.subscription,
            letter_id=message.letter_id,
            reason=letter.reason,
            failure_class=letter.failure_class.value,
            run_id=letter.run_id,
            spurious=spurious,
            error=letter.error,
        )
