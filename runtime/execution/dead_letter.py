"""Telling the API that a queue gave a run up."""

from __future__ import annotations

import secrets

import structlog

from runtime.contract.states import TERMINAL, FailureClass, ProgressStatus
from runtime.execution.attempt import AttemptTools
from runtime.execution.callback_messages import CallbackError, ProgressRequest
from runtime.execution.job import Job
from runtime.execution.values import one_line

log = structlog.get_logger()


async def report_dead_letter(
    job: Job,
    tools: AttemptTools,
    failure_class: FailureClass,
    last_failure_class: FailureClass | None,
    error: str,
    deadline: float,
) -> bool:
    """Ends a run as dead-lettered, unless another attempt holds it. Repeating it is safe.

    Args:
        job: verified.
        tools: of the process.
        failure_class: MALFORMED_MESSAGE or RETRY_EXHAUSTED.
        last_failure_class: true cause of the last attempt's failure; None where it is unknown.
        error: one line.
        deadline: monotonic end of trying.

    Returns:
        Whether the run is now known to be in a terminal state, this one or an earlier one. False: a live lease
        stands against it, or the API did not take it.
    """
    request = ProgressRequest(
        job_id=job.job_id,
        lease_token=secrets.token_hex(16),
        status=ProgressStatus.DEAD_LETTERED,
        error=one_line(error),
        failure_class=failure_class,
        last_failure_class=last_failure_class,
    )
    try:
        answer = await tools.connect(job).progress(request, until=lambda: deadline)
    except CallbackError as failure:
        log.warning("dead_letter_not_reported", run_id=job.run_id, code=failure.code, error=str(failure))
        return False
    log.info("dead_letter_reported", run_id=job.run_id, accepted=answer.accepted, state=answer.status.value)
    return answer.accepted or answer.status in TERMINAL
