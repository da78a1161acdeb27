"""The settings of each role, as the contract defines them, built from what the stack says."""

from __future__ import annotations

from datetime import timedelta

from infra.alignment import known
from infra.run_memory import run_memory
from infra.sections.executor import ExecutorPlan
from infra.settings import StackSettings
from runtime.contract.alignment import Alignment
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.tracing import TracingSettings
from runtime.contract.settings.words import ExecutionBackend, Workload
from runtime.contract.settings.worker import WorkerSettings


def worker_settings(settings: StackSettings, workload: Workload, facts: Alignment) -> WorkerSettings:
    """What a push worker of this stack is started with.

    Raises:
        SettingsError: a worker that would not start; `infra.values` lets no stack come so far.
    """
    names, plan = settings.names, settings.worker
    return WorkerSettings(
        workload=workload,
        project_id=settings.project,
        subscription=names.subscription(names.push(workload)),
        push_audience=names.address(names.worker(workload)),
        push_service_account=names.email(names.push(workload)),
        push_auth=plan.push_auth,
        key_grace=plan.key_grace,
        ack_deadline=_lasting(facts.ack_env),
        request_timeout=_lasting(facts.request_env),
        run_timeout=_lasting(facts.run),
        process_timeout=_lasting(facts.process),
        heartbeat=_lasting(facts.heartbeat),
        stale_after=_lasting(facts.stale_after),
        claim_retention=_lasting(facts.claim_retention),
        database=names.database,
        collection_prefix=settings.collection_prefix,
        max_attempts=known(facts.ceiling),
        broker_attempts=known(facts.broker_env),
        backend_pub=settings.signing_public_key,
        backend_kid=settings.signing_key_id,
        previous_key=settings.previous_key,
        api_base_url=names.address(names.api),
        engines=settings.engines,
        http_hosts=settings.http_hosts,
        run_memory=max(1, run_memory(plan.memory, plan.concurrency)),
        tracing=TracingSettings(endpoint=settings.traces_endpoint),
        log_level=settings.log_level,
    ).validated()


def api_settings(settings: StackSettings, facts: Alignment) -> ApiSettings:
    """What the API of this stack is started with, without the signing key, which only the secret manager has.

    Raises:
        SettingsError: an API that would not start; `infra.values` lets no stack come so far.
    """
    names, plan = settings.names, settings.api
    return ApiSettings(
        project_id=settings.project,
        base_url=names.address(names.api),
        topic=names.topic(names.jobs(Workload.EXECUTION)),
        backend_key=None,
        backend_pub=settings.signing_public_key,
        backend_kid=settings.signing_key_id,
        previous_key=settings.previous_key,
        tick_service_account=names.email(names.tick),
        dead_letter_service_account=names.email(names.dead_letter_identity),
        request_timeout=_lasting(facts.api_request_env),
        execution_backend=ExecutionBackend.HTTP if settings.executor else ExecutionBackend.NONE,
        executor_url=names.address(names.executor) if settings.executor else None,
        database=names.database,
        collection_prefix=settings.collection_prefix,
        run_lease=_lasting(facts.run_lease),
        job_token_life=_lasting(facts.job_token_life),
        run_timeout_max=_lasting(facts.run),
        executor_timeout_max=(settings.executor or ExecutorPlan()).run_timeout,
        max_attempts=known(facts.ceiling),
        max_queue_age=_lasting(facts.max_queue_age),
        run_retention=plan.run_retention,
        key_hashes=plan.key_hashes,
        engines=settings.engines,
        tracing=TracingSettings(endpoint=settings.traces_endpoint),
        log_level=settings.log_level,
    ).validated()


def executor_settings(settings: StackSettings, plan: ExecutorPlan) -> ExecutorSettings:
    """What the executor of this stack is started with.

    Raises:
        SettingsError: an executor that would not start; `infra.values` lets no stack come so far.
    """
    return ExecutorSettings(
        backend_pub=settings.signing_public_key,
        backend_kid=settings.signing_key_id,
        previous_key=settings.previous_key,
        run_timeout=plan.run_timeout,
        engines=settings.engines,
        http_hosts=settings.http_hosts,
        run_memory=max(1, run_memory(plan.memory, plan.concurrency)),
        project_id=settings.project,
        tracing=TracingSettings(endpoint=settings.traces_endpoint),
        log_level=settings.log_level,
    ).validated()


def _lasting(seconds: int | None) -> timedelta:
    return timedelta(seconds=known(seconds))
