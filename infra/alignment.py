"""Everything that follows from the timeouts that a stack gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from runtime.contract import derivation, limits
from runtime.contract.alignment import Alignment

STARTUP_PERIOD: Final = 1
"""Seconds between two startup probes."""
STARTUP_FAILURES: Final = 30
"""Failed startup probes that end an instance: with 30 s, a cold start fits before the ack deadline."""
TICK_DEADLINE: Final = 60
"""Seconds that the scheduler waits for the sweeper, which it calls once a minute."""


@dataclass(frozen=True, slots=True)
class Plans:
    """The sections whose numbers belong together.

    Attributes:
        entry_points: whether runs have processes of their own, which share their instance's memory.
    """

    worker: WorkerPlan
    api: ApiPlan
    executor: ExecutorPlan | None = None
    entry_points: bool = False


def align(plans: Plans) -> Alignment:
    """Facts about one worker, the API and the executor: what is given, and the rest derived from it."""
    worker, api, executor = plans.worker, plans.api, plans.executor
    given = derivation.GivenTimeouts(
        request=_seconds(worker.request_timeout),
        run=_seconds(worker.run_timeout),
        heartbeat=_seconds(worker.heartbeat),
        ceiling=worker.max_attempts,
        min_backoff=_seconds(worker.minimum_backoff),
        max_backoff=_seconds(worker.maximum_backoff),
    )
    facts = derivation.derive(given)
    if worker.stale_after is not None:
        facts = _with_stale_after(facts, given, _seconds(worker.stale_after))
    if worker.message_retention is not None:
        facts = _with_message_retention(facts, given, _seconds(worker.message_retention))
    if worker.claim_retention is not None:
        facts = facts._replace(claim_retention=_seconds(worker.claim_retention))
    return facts._replace(
        startup_delay=0,
        startup_period=STARTUP_PERIOD,
        startup_failures=STARTUP_FAILURES,
        max_instances=worker.max_instances,
        concurrency=worker.concurrency,
        # The platform may take the CPU away once the broker hangs up, and the work goes on.
        cpu_idle=given.request <= known(facts.ack),
        scheduler_deadline=TICK_DEADLINE,
        api_request_env=_seconds(api.request_timeout),
        api_timeout=_seconds(api.request_timeout),
        sync_wait=_seconds(executor.run_timeout) if executor else None,
        executor_run=_seconds(executor.run_timeout) if executor else None,
        executor_timeout=_seconds(derive_executor_timeout(executor.run_timeout)) if executor else None,
    )


def derive_executor_timeout(run: timedelta) -> timedelta:
    """Request timeout of an executor's service: time to settle (T04), and as much to start, where there is room."""
    longest = timedelta(seconds=limits.REQUEST_TIMEOUT_MAX)
    return min(run + 2 * timedelta(seconds=limits.SETTLE_BUDGET), longest)


def _with_stale_after(facts: Alignment, given: derivation.GivenTimeouts, stale_after: int) -> Alignment:
    ack, park = known(facts.ack), min(stale_after, known(facts.process))
    broker = derivation.derive_broker_attempts(given.ceiling, given.request, ack, park, given.min_backoff)
    facts = facts._replace(
        stale_after=stale_after,
        run_lease=derivation.derive_run_lease(stale_after, given.heartbeat),
        broker_env=broker,
        broker_attempts=broker,
    )
    return _with_message_retention(facts, given, derivation.derive_message_retention(broker, ack, given.max_backoff))


def _with_message_retention(facts: Alignment, given: derivation.GivenTimeouts, retention: int) -> Alignment:
    return facts._replace(
        message_retention=retention,
        claim_retention=derivation.derive_claim_retention(known(facts.process), retention),
        job_token_life=derivation.derive_job_token_life(retention, given.request),
        max_queue_age=derivation.derive_max_queue_age(retention),
    )


def known(value: int | None) -> int:
    """A fact that derivation always fills in."""
    if value is None:
        raise AssertionError("derived facts have every number")
    return value


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())
