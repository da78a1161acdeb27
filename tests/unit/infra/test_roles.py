"""What a service is started with is what the stack says, and it starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.alignment import Plans, align
from infra.misalignment import misalignments
from infra.roles import api_settings, executor_settings, worker_settings
from infra.sections.api import ApiPlan
from infra.sections.worker import WorkerPlan
from infra.settings import StackSettings
from runtime.contract.forbidden import Role, scan
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.tracing import TracingSettings
from runtime.contract.settings.words import ExecutionBackend, Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.timeouts import check
from tests.support.job_keys import pair
from tests.support.stacks import loaded

aligned = st.fixed_dictionaries(
    {},
    optional={
        "request_timeout_seconds": st.integers(600, 3600),
        "run_timeout_seconds": st.integers(1, 540),
        "heartbeat_seconds": st.integers(5, 60),
        "max_attempts": st.integers(1, 4),
        "minimum_backoff_seconds": st.integers(0, 60),
        "maximum_backoff_seconds": st.integers(60, 600),
        "message_retention_seconds": st.integers(200_000, 604_800),
        "key_grace_seconds": st.integers(0, 21_600),
        "push_auth": st.sampled_from(["platform", "in_process"]),
        "max_instances": st.integers(2, 10),
    },
).filter(lambda worker: not misalignments(Plans(WorkerPlan.model_validate(worker), ApiPlan())))
"""Sections that hold, most of them with several keys."""


def stack(worker: dict[str, Any] | None = None, **changes: Any) -> StackSettings:
    return loaded(worker=worker or {}, **changes)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(aligned)
def test_a_worker_reads_back_what_was_meant(worker: dict[str, Any]) -> None:
    plan = stack(worker)
    facts = align(Plans(plan.worker, plan.api))
    meant = worker_settings(plan, Workload.EXECUTION, facts)
    rendered = {name: value for name, value in meant.to_env().items() if name != "PORT"}

    read = WorkerSettings.from_env({**rendered, "PORT": "8080"})

    assert read == meant
    assert read.run_timeout == plan.worker.run_timeout
    assert read.request_timeout == plan.worker.request_timeout
    assert scan(rendered, Role.WORKER) == []
    assert check(facts) == []


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(aligned, st.integers(604_800, 31_536_000))
def test_the_api_reads_back_what_was_meant(worker: dict[str, Any], retention: int) -> None:
    plan = stack(worker, api={"run_retention_seconds": retention, "key_hashes": {"shop": "a" * 64}})
    meant = api_settings(plan, align(Plans(plan.worker, plan.api)))
    rendered = {name: value for name, value in meant.to_env().items() if name != "PORT"}

    read = ApiSettings.from_env({**rendered, "PORT": "8080", "BACKEND_KEY": pair().private})

    assert replace(read, backend_key=None) == meant
    assert "BACKEND_KEY" not in rendered, "only the secret manager has it"
    assert read.run_retention == timedelta(seconds=retention)
    assert read.run_timeout_max == plan.worker.run_timeout, "a run that the worker cannot finish is refused at once"
    assert read.max_attempts == plan.worker.max_attempts
    assert scan(rendered, Role.API) == []


@given(st.integers(1, 3570))
def test_the_executor_reads_back_what_was_meant_and_the_api_waits_for_it(run: int) -> None:
    hosts = ["api.example.com", "*.example.org"]
    plan = stack(executor={"run_timeout_seconds": run}, engines={"report": "acme.reports:run"}, http_hosts=hosts)
    assert plan.executor is not None
    meant, api = (
        executor_settings(plan, plan.executor),
        api_settings(plan, align(Plans(plan.worker, plan.api, plan.executor))),
    )
    rendered = {name: value for name, value in meant.to_env().items() if name != "PORT"}

    read = ExecutorSettings.from_env({**rendered, "PORT": "8080"})

    assert read == meant
    assert scan(rendered, Role.EXECUTOR) == []
    assert read.run_timeout == api.executor_timeout_max == timedelta(seconds=run)
    worker = worker_settings(plan, Workload.EXECUTION, align(Plans(plan.worker, plan.api, plan.executor)))
    assert read.http_hosts == worker.http_hosts == tuple(hosts)
    assert (read.engines, read.backend_pub, read.backend_kid) == (api.engines, api.backend_pub, api.backend_kid)
    assert api.execution_backend is ExecutionBackend.HTTP
    assert api.executor_url == plan.names.address(plan.names.executor)


def test_an_api_without_an_executor_calls_nobody() -> None:
    api = api_settings(stack(), align(Plans(WorkerPlan(), ApiPlan())))
    assert (api.execution_backend, api.executor_url) == (ExecutionBackend.NONE, None)


def test_both_sides_of_a_wire_are_told_the_same() -> None:
    plan = stack(
        engines={"report": "acme.reports:run"},
        collection_prefix="blue-",
        signing_key_id="k2",
        traces_endpoint="https://telemetry.googleapis.com",
    )
    facts = align(Plans(plan.worker, plan.api))
    worker, api = worker_settings(plan, Workload.EXECUTION, facts), api_settings(plan, facts)

    assert worker.api_base_url == api.base_url
    assert (worker.backend_pub, worker.backend_kid) == (api.backend_pub, api.backend_kid) == (pair().public, "k2")
    assert worker.engines == api.engines == {"flow": "", "report": "acme.reports:run"}
    assert (worker.database, worker.collection_prefix) == (api.database, api.collection_prefix)
    assert worker.run_lease == api.run_lease
    assert worker.tracing == api.tracing == TracingSettings(endpoint="https://telemetry.googleapis.com")
