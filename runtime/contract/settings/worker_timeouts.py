"""The timeouts of a push worker, with the rules that hold between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, TypedDict

from runtime.contract import limits
from runtime.contract.alignment import Alignment, Finding
from runtime.contract.derivation import derive_process_timeout
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.render import whole_seconds
from runtime.contract.settings.words import Workload
from runtime.contract.timeout_rules import broker, delivery
from runtime.contract.timeout_rules.service import RUN_MAX

ACK: Final = "GCP_QUEUE_ACK_DEADLINE_SECS"
REQUEST: Final = "GCP_QUEUE_REQUEST_TIMEOUT_SECS"
PROCESS: Final = "GCP_QUEUE_PROCESS_TIMEOUT_SECS"
HEARTBEAT: Final = "GCP_QUEUE_CLAIM_HEARTBEAT_SECS"
STALE_AFTER: Final = "GCP_QUEUE_CLAIM_STALE_AFTER_SECS"
CEILING: Final = "GCP_QUEUE_MAX_DELIVERY_ATTEMPTS"
BROKER: Final = "GCP_QUEUE_BROKER_MAX_ATTEMPTS"
RETENTION: Final = "GCP_QUEUE_CLAIM_RETENTION_SECS"


class WorkerTimeouts(TypedDict):
    """The fields of this group, see WorkerSettings."""

    ack_deadline: timedelta
    request_timeout: timedelta
    run_timeout: timedelta
    process_timeout: timedelta
    heartbeat: timedelta
    stale_after: timedelta
    claim_retention: timedelta


def run_timeout_variable(workload: Workload | None) -> str:
    """The variable that limits the work of one delivery."""
    return "COMPILER_TIMEOUT_SECS" if workload is Workload.COMPILATION else "EXECUTOR_TIMEOUT_SECS"


def read_worker_timeouts(env: EnvironmentReader, workload: Workload | None) -> WorkerTimeouts:
    """Reads the group, each value followed by the rules that it completes."""
    ack = env.number(ACK, broker.ACK_DEADLINE_MIN, limits.ACK_DEADLINE_MAX, 600, unit="seconds")
    request = env.number(REQUEST, 60, limits.REQUEST_TIMEOUT_MAX, 3600, unit="seconds")
    run_variable = run_timeout_variable(workload)
    run = env.number(run_variable, 1, RUN_MAX, 540, unit="seconds")
    usual = derive_process_timeout(run, request)
    process = env.number(PROCESS, 30, request - limits.SETTLE_BUDGET, usual, unit="seconds")
    facts = Alignment(
        ack_env=ack if env.good(ACK) else None,
        request_env=request if env.good(REQUEST) else None,
        run=run if env.good(run_variable) and workload is not None and workload.runs_jobs else None,
        process=process if env.good(REQUEST, run_variable, PROCESS) else None,
    )
    _refuse(env, PROCESS, "invalid_process_timeout", delivery.t03(facts))
    _refuse(env, ACK, "invalid_ack_deadline", broker.t06(facts))
    heartbeat = env.number(HEARTBEAT, 5, 600, 30, unit="seconds")
    stale_after = env.number(STALE_AFTER, 30, 3600, 180, unit="seconds")
    claims = Alignment(
        ack_env=facts.ack_env,
        request_env=facts.request_env,
        process=facts.process,
        heartbeat=heartbeat if env.good(HEARTBEAT) else None,
        stale_after=stale_after if env.good(STALE_AFTER) else None,
    )
    _refuse(env, STALE_AFTER, "invalid_claim_stale_after", delivery.t07(claims), broker.t12(claims))
    retention = env.number(RETENTION, 3600, 604800, 86400, unit="seconds")
    kept = Alignment(process=facts.process, claim_retention=retention if env.good(RETENTION) else None)
    _refuse(env, RETENTION, "invalid_claim_retention", delivery.t08(kept))
    return WorkerTimeouts(
        ack_deadline=timedelta(seconds=ack),
        request_timeout=timedelta(seconds=request),
        run_timeout=timedelta(seconds=run),
        process_timeout=timedelta(seconds=process),
        heartbeat=timedelta(seconds=heartbeat),
        stale_after=timedelta(seconds=stale_after),
        claim_retention=timedelta(seconds=retention),
    )


class DeliveryAttempts(TypedDict):
    """The fields of this group, see WorkerSettings."""

    max_attempts: int
    broker_attempts: int | None


def read_attempts(env: EnvironmentReader, timeouts: WorkerTimeouts) -> DeliveryAttempts:
    """Reads how often a message is worked, and how often the broker tries."""
    ceiling = env.number(CEILING, 1, 100, 3)
    told = env.maybe_number(BROKER, limits.BROKER_ATTEMPTS_MIN, broker.BROKER_ATTEMPTS_MAX, 20)
    if env.good(CEILING, BROKER, ACK, REQUEST):
        facts = Alignment(
            ack_env=whole_seconds(timeouts["ack_deadline"]),
            request_env=whole_seconds(timeouts["request_timeout"]),
            ceiling=ceiling,
            broker_env=told,
        )
        _refuse(env, BROKER, "invalid_broker_attempts", broker.t09(facts))
    return DeliveryAttempts(max_attempts=ceiling, broker_attempts=told)


def _refuse(env: EnvironmentReader, name: str, code: str, *found: Iterator[Finding]) -> None:
    for findings in found:
        for finding in findings:
            env.fault(name, code, finding.message)
