"""P1: one push delivery, from its arrival to its answer.

Reads as the list that it is: P2 who, P3 what, P4 whose, P5 work, P6 settle; the app answers (P7).
"""

from __future__ import annotations

import structlog

from runtime.contract.envelope import PushEnvelope
from runtime.contract.errors import HoldfastError
from runtime.contract.outcomes import OUTCOMES, Outcome, Verdict, outcome
from runtime.contract.trace_context import ATTRIBUTE_TRACEPARENT, TraceContext
from runtime.identity.key_cache import KeySetUnavailable
from runtime.identity.push_token import PushRefused
from runtime.observability.log_context import bind_fields
from runtime.ports.tracing import Attributes, SpanKind
from runtime.worker.authenticate import authenticate
from runtime.worker.claim import Claims
from runtime.worker.deps import WorkerDeps
from runtime.worker.parse import receive
from runtime.worker.request import PushRequest, Refused
from runtime.worker.settle import settle
from runtime.worker.work import work

log = structlog.get_logger()


async def deliver(deps: WorkerDeps, claims: Claims, request: PushRequest) -> Outcome:
    """Handles a delivery to its end. Raises nothing but a cancellation of its own task."""
    try:
        answer = await _walk(deps, claims, request)
    except (Refused, PushRefused, KeySetUnavailable) as error:
        answer = _refusal(deps, error)
    except Exception:
        log.exception("unhandled_error")
        answer = outcome("unhandled_error")
    deps.metrics.delivered(answer.code)
    write = log.info if answer.verdict is Verdict.ACK else log.warning
    write("delivery_answered", outcome=answer.code, status=answer.status)
    return answer


async def _walk(deps: WorkerDeps, claims: Claims, request: PushRequest) -> Outcome:
    deadline = deps.clock.monotonic() + deps.settings.process_timeout.total_seconds()
    await authenticate(request, deps.settings, deps.push_verifier)
    if not deps.lifecycle.accepting:
        return outcome("worker_draining")
    message = await receive(request, deps.settings, deps.clock, deadline=deadline)
    bind_fields(message_id=message.message_id, delivery_attempt=message.delivery_attempt)
    claim = await claims.acquire(message.message_id, message.delivery_attempt, deadline=deadline)
    if isinstance(claim, Outcome):
        return claim
    parent = TraceContext.read(message.attributes.get(ATTRIBUTE_TRACEPARENT))
    with deps.tracing.span("work", SpanKind.CONSUMER, parent=parent, attributes=_about(message)):
        async with claim as guard:
            worked = await work(deps, guard, message, deadline=deadline)
            return await settle(deps, guard, message, worked)


def _about(message: PushEnvelope) -> Attributes:
    return {
        "messaging.system": "gcp_pubsub",
        "messaging.message.id": message.message_id,
        "messaging.gcp_pubsub.message.delivery_attempt": message.delivery_attempt or 0,
    }


def _refusal(deps: WorkerDeps, error: HoldfastError) -> Outcome:
    log.warning(
        "delivery_refused",
        code=error.code,
        error=str(error),
        push_service_account=deps.settings.push_service_account,
        push_audience=deps.settings.push_audience or "derived from Host",
    )
    return OUTCOMES.get(error.code, outcome("unhandled_error"))
