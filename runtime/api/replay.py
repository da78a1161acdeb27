"""Replay: the next generation of a run that did not succeed, begun from its record and never from its letter."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from runtime.api.dispatch import Dispatcher
from runtime.api.fields import RUN_ID
from runtime.api.letter_store import LetterStore, StoredLetter
from runtime.api.payloads import Payloads, payload_document
from runtime.api.problem import Problem
from runtime.api.run_record import RunRecord
from runtime.api.run_store import Change, RunStore
from runtime.api.submission import mark
from runtime.api.transitions import replay
from runtime.contract.dead_letter import DeadLetter
from runtime.contract.states import REPLAYABLE, RunMode

log = structlog.get_logger()


class Replays:
    """Replays dead letters, each at most once.

    Args:
        letters: where letters are.
        runs: where runs are.
        payloads: what runs are signed and published from.
        dispatcher: publishes.
        max_queue_age: how long the new generation may wait in all.
    """

    def __init__(
        self, letters: LetterStore, runs: RunStore, payloads: Payloads, dispatcher: Dispatcher, max_queue_age: timedelta
    ) -> None:
        self._letters = letters
        self._runs = runs
        self._payloads = payloads
        self._dispatcher = dispatcher
        self._max_queue_age = max_queue_age

    async def replay(self, letter_id: str, caller: str) -> RunRecord:
        """Queues the letter's run again. Where publishing fails the sweeper does it.

        Raises:
            Problem: 404 `dead_letter_not_found`, `run_not_found`; 409 `already_replayed` with the generation that the
                letter's replay began, `not_replayable`, `letter_superseded`, `run_not_replayable`, `payload_gone`.
            StoreUnavailable: it may or may not be queued; the same call again finds out.
        """
        stored = await self._letter(letter_id)
        run_id = stored.letter.run_id
        if run_id is None or RUN_ID.fullmatch(run_id) is None:
            raise Problem(409, "not_replayable", f"dead letter {letter_id} names no run; send its data again yourself")
        payload = await self._payloads.payload(run_id)
        if payload is None:
            await self._runs.get(run_id)
            raise _refusal("payload_gone", run_id, "the run's payload is gone; submit it as a new run")

        def step(record: RunRecord, now: datetime) -> Change[Problem | None]:
            refused = _judge(record, stored.letter)
            if refused is not None:
                return Change(refused)
            after = replay(record, self._max_queue_age, now)
            marked = replace(stored.letter, replayed_generation=after.generation, replayed_at=now, replayed_by=caller)
            # Written again although it is the same: it must live as long as the new generation.
            return Change(None, after, [payload_document(run_id, payload)], [stored.become(marked)])

        record, refused = await self._runs.change(run_id, step)
        if refused is not None:
            await self._letter(letter_id)  # a replay of the same letter at the same time is said as such
            raise refused
        log.info("run_replayed", run_id=run_id, letter_id=letter_id, generation=record.generation, by=caller)
        if not await self._dispatcher.publish(record, payload):
            return record
        return await mark(self._runs, record)

    async def _letter(self, letter_id: str) -> StoredLetter:
        stored = await self._letters.get(letter_id)
        if stored is None:
            raise unknown_letter(letter_id)
        letter = stored.letter
        if letter.replayed_generation is not None:
            raise Problem(
                409,
                "already_replayed",
                f"dead letter {letter_id} was replayed as generation {letter.replayed_generation} of run "
                f"{letter.run_id}; a letter is replayed once",
                members={"run_id": letter.run_id, "generation": letter.replayed_generation},
            )
        return stored


def unknown_letter(letter_id: str) -> Problem:
    """The 404 of a letter that is not recorded, or no longer."""
    return Problem(
        404, "dead_letter_not_found", f"no dead letter {letter_id[:64]!r} is recorded; they are kept for 30 days"
    )


def _judge(record: RunRecord, letter: DeadLetter) -> Problem | None:
    if record.job_id != letter.job_id:
        return _refusal(
            "letter_superseded",
            record.run_id,
            f"the letter is of job {letter.job_id}, the run is at generation {record.generation}",
            generation=record.generation,
        )
    if record.mode is not RunMode.ASYNC:
        return _refusal(
            "run_not_replayable", record.run_id, f"it is a {record.mode} run, whose caller has had its answer"
        )
    if record.state not in REPLAYABLE:
        return _refusal(
            "run_not_replayable",
            record.run_id,
            f"the run is {record.state}; only {', '.join(sorted(REPLAYABLE))} can be replayed",
            state=record.state.value,
            generation=record.generation,
        )
    return None


def _refusal(code: str, run_id: str, why: str, **members: object) -> Problem:
    return Problem(409, code, f"run {run_id} is not replayed: {why}", members={"run_id": run_id, **members})
