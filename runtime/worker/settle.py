"""P6: the one place that settles a claim by how the work ended."""

from __future__ import annotations

import structlog

from runtime.contract.envelope import PushEnvelope
from runtime.contract.outcomes import Outcome, Verdict, outcome
from runtime.worker.claim_record import ClaimState
from runtime.worker.dead_letter import bury, cause_of
from runtime.worker.deps import WorkerDeps
from runtime.worker.guard import Guard, Settlement
from runtime.worker.step_limit import STEP_SECONDS
from runtime.worker.work import Worked

log = structlog.get_logger()


async def settle(deps: WorkerDeps, guard: Guard, message: PushEnvelope, worked: Worked) -> Outcome:
    """Writes what the work's end means for the message, and returns the answer."""
    decided = outcome(worked.ended.code)
    if worked.alive:
        return decided
    if decided.verdict is Verdict.DEAD:
        return await bury(deps, guard, message, worked, decided)
    if decided.verdict is not Verdict.ACK and _is_last_delivery(deps, message):
        return await bury(deps, guard, message, worked, outcome("broker_attempts_exhausted"))
    done = decided.verdict is Verdict.ACK
    settlement = await guard.settle(
        ClaimState.COMPLETED if done else ClaimState.RELEASED,
        "" if done else decided.code,
        within=STEP_SECONDS,
        excused=decided.excused,
        failure_class=None if done else cause_of(worked.ended),
    )
    if settlement is Settlement.LOST:
        return outcome("claim_lost")
    log.info(
        "work_completed" if done else "claim_released",
        failure_code=None if done else decided.code,
        attempts=guard.record.attempts,
        excused=guard.record.excused,
        error=worked.ended.error,
    )
    return decided


def _is_last_delivery(deps: WorkerDeps, message: PushEnvelope) -> bool:
    """Whether the broker forwards the message to its dead-letter topic after this answer."""
    last, this = deps.settings.broker_attempts, message.delivery_attempt
    return last is not None and this is not None and this >= last
