"""The resources, read by themselves, satisfy the timeout rules and start the services as the stack meant."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.alignment import Plans, align
from infra.misalignment import misalignments
from infra.roles import worker_settings
from infra.sections.api import ApiPlan
from infra.sections.worker import WorkerPlan
from runtime.contract.alignment import Alignment
from runtime.contract.settings.words import Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.timeouts import check
from sandbox.provider.limits import seconds_of
from sandbox.world import SCHEDULER_JOB, SERVICE, SUBSCRIPTION, World
from tests.support.stacks import loaded, realised

workers = st.fixed_dictionaries(
    {},
    optional={
        "request_timeout_seconds": st.integers(60, 3600),
        "run_timeout_seconds": st.integers(1, 3540),
        "heartbeat_seconds": st.integers(5, 190),
        "stale_after_seconds": st.integers(30, 570),
        "max_attempts": st.integers(1, 5),
        "minimum_backoff_seconds": st.integers(0, 60),
        "maximum_backoff_seconds": st.integers(60, 600),
        "message_retention_seconds": st.integers(100_000, 604_800),
        "concurrency": st.integers(1, 80),
        "max_instances": st.integers(1, 10),
        "push_auth": st.sampled_from(["platform", "in_process"]),
    },
).filter(lambda worker: not misalignments(Plans(WorkerPlan.model_validate(worker), ApiPlan())))


@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(workers)
def test_whatever_a_stack_says_the_resources_agree_with_each_other(worker: dict[str, Any]) -> None:
    retention = {"run_retention_seconds": 700_000}
    with tempfile.TemporaryDirectory() as folder:
        world = realised(Path(folder), worker=worker, api=retention).world
    plan = loaded(worker=worker, api=retention)

    read = WorkerSettings.from_env({**_environment(world, "holdfast-execution"), "PORT": "8080"})

    assert read == worker_settings(plan, Workload.EXECUTION, align(Plans(plan.worker, plan.api)))
    assert check(_facts(world)) == []


def _environment(world: World, name: str) -> dict[str, str]:
    service = world.find(SERVICE, name)
    assert service is not None
    (container,) = service.inputs["template"]["containers"]
    return {env["name"]: env.get("value", "") for env in container["envs"]}


def _facts(world: World) -> Alignment:
    """What the rules look at, from the resources alone."""
    worker, api = (world.find(SERVICE, name) for name in ("holdfast-execution", "holdfast-api"))
    subscription, job = world.find(SUBSCRIPTION, "holdfast-execution-push"), world.find(SCHEDULER_JOB, "holdfast-tick")
    assert worker is not None
    assert api is not None
    assert subscription is not None
    assert job is not None
    env, api_env = _environment(world, "holdfast-execution"), _environment(world, "holdfast-api")
    template, pushed = worker.inputs["template"], subscription.inputs
    (container,) = template["containers"]
    return Alignment(
        request_env=int(env["GCP_QUEUE_REQUEST_TIMEOUT_SECS"]),
        service_timeout=_seconds(template["timeout"]),
        process=int(env["GCP_QUEUE_PROCESS_TIMEOUT_SECS"]),
        run=int(env["EXECUTOR_TIMEOUT_SECS"]),
        ack_env=int(env["GCP_QUEUE_ACK_DEADLINE_SECS"]),
        ack_subscription=pushed["ackDeadlineSeconds"],
        heartbeat=int(env["GCP_QUEUE_CLAIM_HEARTBEAT_SECS"]),
        stale_after=int(env["GCP_QUEUE_CLAIM_STALE_AFTER_SECS"]),
        run_lease=int(api_env["API_RUN_LEASE_SECS"]),
        claim_retention=int(env["GCP_QUEUE_CLAIM_RETENTION_SECS"]),
        message_retention=_seconds(pushed["messageRetentionDuration"]),
        ceiling=int(env["GCP_QUEUE_MAX_DELIVERY_ATTEMPTS"]),
        broker_env=int(env["GCP_QUEUE_BROKER_MAX_ATTEMPTS"]),
        broker_attempts=pushed["deadLetterPolicy"]["maxDeliveryAttempts"],
        min_backoff=_seconds(pushed["retryPolicy"]["minimumBackoff"]),
        max_backoff=_seconds(pushed["retryPolicy"]["maximumBackoff"]),
        startup_delay=container["startupProbe"]["initialDelaySeconds"],
        startup_period=container["startupProbe"]["periodSeconds"],
        startup_failures=container["startupProbe"]["failureThreshold"],
        cpu_idle=container["resources"]["cpuIdle"],
        max_instances=template["scaling"]["maxInstanceCount"],
        concurrency=template["maxInstanceRequestConcurrency"],
        service_address=worker.outputs["uri"],
        push_endpoint=pushed["pushConfig"]["pushEndpoint"],
        push_audience=pushed["pushConfig"]["oidcToken"]["audience"],
        audience_env=env["PUBSUB_PUSH_AUDIENCE"],
        custom_audiences=tuple(worker.inputs["customAudiences"]),
        scheduler_deadline=_seconds(job.inputs["attemptDeadline"]),
        api_request_env=int(api_env["API_REQUEST_TIMEOUT_SECS"]),
        api_timeout=_seconds(api.inputs["template"]["timeout"]),
        job_token_life=int(api_env["API_JOB_TOKEN_LIFE_SECS"]),
        max_queue_age=int(api_env["API_MAX_QUEUE_AGE_SECS"]),
    )


def _seconds(duration: str) -> int:
    return int(seconds_of(duration) or 0)
