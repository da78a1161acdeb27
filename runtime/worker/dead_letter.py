"""Giving a message up: letter, then the run's end, then the claim; nothing is acknowledged before all are tried."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import structlog

from runtime.contract.dead_letter import LETTER_RETENTION, DeadLetter, message_key, read_time
from runtime.contract.envelope import PushEnvelope
from runtime.contract.limits import DEAD_LETTER_PAYLOAD_BYTES
from runtime.contract.names import DEAD_LETTER_PAYLOADS, DEAD_LETTERED, DEAD_LETTERS, TTL_FIELD
from runtime.contract.outcomes import Outcome, outcome
from runtime.contract.states import FailureClass
from runtime.contract.strict_base64 import decode_base64
from runtime.ports.documents import Create, DocumentExists, Key, StoreError, StoreUnavailable, Write
from runtime.worker.claim_record import ClaimState
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import STORE_CALL, Guard, Settlement
from runtime.worker.step_limit import STEP_SECONDS, StepLimit
from runtime.worker.work import Worked
from runtime.worker.workload import Ended

EXHAUSTED: Final = frozenset({"max_delivery_attempts_exceeded", "broker_attempts_exhausted"})
"""Reasons that say nothing about the message itself: the true cause is that of its last attempt."""

CAUSES: Final[Mapping[str, FailureClass]] = MappingProxyType(
    {
        "run_lease_busy": FailureClass.BACKPRESSURE,
        "owner_in_flight": FailureClass.BACKPRESSURE,
        "not_enough_time": FailureClass.BACKPRESSURE,
        "processing_timeout": FailureClass.FRAMEWORK_TIMEOUT,
        "callback_unacknowledged": FailureClass.RESULT_STORE_ERROR,
        "files_ledger_unavailable": FailureClass.RESULT_STORE_ERROR,
        "files_ledger_write_conflict": FailureClass.RESULT_STORE_ERROR,
        "usage_database_unavailable": FailureClass.RESULT_STORE_ERROR,
        "media_object_store_unavailable": FailureClass.RESULT_STORE_ERROR,
    }
)
"""Failure class of a retryable reason that came without one; every other is DISPATCH_ERROR."""

ORDERING_KEY_CHARACTERS: Final = 1024
"""Pub/Sub's limit for an ordering key; a longer one must not keep a letter from being written."""
_FIRST_PAUSE: Final = 0.25

log = structlog.get_logger()


async def bury(deps: WorkerDeps, guard: Guard, message: PushEnvelope, worked: Worked, reason: Outcome) -> Outcome:
    """Records the end of a message and returns the answer: `reason`, unless the letter or the claim is not ours.

    Args:
        deps: store, workload, clock.
        guard: the claim; its heartbeat goes on until the last step.
        message: as received.
        worked: how the last attempt ended.
        reason: why no further attempt is made.
    """
    letter, payload = _letter(deps, guard, message, worked, reason)
    if not guard.ours:
        return outcome("claim_lost")
    if not await _record(deps, letter, payload):
        unrecorded = outcome("dead_letter_unrecorded")
        await guard.settle(
            ClaimState.RELEASED, unrecorded.code, within=STEP_SECONDS, failure_class=letter.last_failure_class
        )
        return unrecorded
    if worked.job is not None and guard.ours:
        try:
            async with StepLimit(deps.lifecycle, deps.clock, STEP_SECONDS, steps=2):
                await worked.job.give_up(
                    letter.failure_class,
                    letter.last_failure_class,
                    letter.error,
                    deadline=deps.clock.monotonic() + STEP_SECONDS,
                )
        except Exception as error:  # noqa: BLE001 - the letter is written; the broker's own dead letter ends the run too
            log.warning("terminal_state_unrecorded", run_id=letter.run_id, error=str(error), kind=type(error).__name__)
    settlement = await guard.settle(
        ClaimState.DEAD_LETTERED, reason.code, within=STEP_SECONDS, failure_class=letter.failure_class
    )
    if settlement is Settlement.LOST:
        return outcome("claim_lost")
    deps.metrics.dead_letters.labels(source=letter.source, failure_class=str(letter.failure_class)).inc()
    log.error(
        DEAD_LETTERED,
        subscription=letter.subscription,
        attempts=letter.attempts,
        excused=letter.excused,
        reason=reason.code,
        failure_class=str(letter.failure_class),
        last_failure_class=letter.last_failure_class and str(letter.last_failure_class),
        run_id=letter.run_id,
        error=letter.error,
    )
    return reason


def _letter(
    deps: WorkerDeps, guard: Guard, message: PushEnvelope, worked: Worked, reason: Outcome
) -> tuple[DeadLetter, dict[str, object] | None]:
    decoded = decode_base64(message.data_encoded)
    payload = message.data_encoded.encode() if decoded is None else decoded
    kept = len(payload) <= DEAD_LETTER_PAYLOAD_BYTES
    now = deps.clock.now()
    letter = DeadLetter(
        source=str(deps.settings.workload),
        failure_class=FailureClass.RETRY_EXHAUSTED if reason.code in EXHAUSTED else FailureClass.MALFORMED_MESSAGE,
        last_failure_class=_last_cause(guard, worked, reason),
        run_id=worked.facts.run_id,
        job_id=worked.facts.job_id,
        app_id=worked.facts.app_id,
        engine=worked.facts.engine,
        subscription=message.subscription,
        message_id=message.message_id,
        ordering_key=message.ordering_key[:ORDERING_KEY_CHARACTERS] or None,
        delivery_attempt=message.delivery_attempt,
        attempts=guard.record.attempts,
        excused=guard.record.excused,
        reason=reason.code,
        error=worked.ended.error or worked.ended.code,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        payload_bytes=len(payload),
        has_payload=kept,
        failed_at=now,
        worker=deps.revision,
        published_at=read_time(message.publish_time),
    )
    encoding = "as_received" if decoded is None else "decoded"
    return letter, {"data": payload, "encoding": encoding, TTL_FIELD: now + LETTER_RETENTION} if kept else None


def cause_of(ended: Ended) -> FailureClass:
    """Why an attempt that is to be repeated did not succeed."""
    return ended.failure_class or CAUSES.get(ended.code, FailureClass.DISPATCH_ERROR)


def _last_cause(guard: Guard, worked: Worked, reason: Outcome) -> FailureClass | None:
    """Class of the last attempt that worked: this one, but at the ceiling the one before."""
    if reason.code == "broker_attempts_exhausted":
        return cause_of(worked.ended)
    if reason.code == "max_delivery_attempts_exceeded":
        known = guard.record.failure_class
        return FailureClass(known) if known in set(FailureClass) else FailureClass.DISPATCH_ERROR
    return worked.ended.failure_class


async def _record(deps: WorkerDeps, letter: DeadLetter, payload: dict[str, object] | None) -> bool:
    """Writes letter and payload together; True once they are there, whoever wrote them."""
    id_ = message_key(letter.subscription, letter.message_id)
    writes: list[Write] = [Create(Key(DEAD_LETTERS, id_), letter.data())]
    if payload is not None:
        writes.append(Create(Key(DEAD_LETTER_PAYLOADS, id_), payload))
    pause = _FIRST_PAUSE
    try:
        async with StepLimit(deps.lifecycle, deps.clock, STEP_SECONDS, steps=3):
            while True:
                try:
                    await deps.documents.commit(writes, timeout=STORE_CALL)
                except DocumentExists:
                    return True
                except StoreUnavailable as error:
                    log.warning("dead_letter_write_failed", error=str(error))
                    await deps.clock.sleep(pause)
                    pause *= 2
                else:
                    return True
    except (StoreError, TimeoutError) as error:
        log.error("dead_letter_unrecorded", error=str(error), kind=type(error).__name__)  # noqa: TRY400 - the kind says it all
        return False
