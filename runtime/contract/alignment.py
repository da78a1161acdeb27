"""What the timeout rules look at: numbers of the environment, of the resources, and of both sides of each pair."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

Fact = int | str | tuple[str, ...] | None
"""A number (seconds or a count; flags are bool), an address, or addresses; None: not known here."""


class Alignment(NamedTuple):
    """Facts about one worker, its subscription, and the services around it.

    Durations are whole seconds. None means "not known here" and skips only the rules that need the fact. What a
    resource leaves out is known: the caller fills in the platform's default (`limits.REQUEST_TIMEOUT_DEFAULT`,
    `limits.ACK_DEADLINE_DEFAULT`).

    Attributes:
        request_env: request timeout in the worker's environment.
        service_timeout: request timeout of the worker's service template.
        process: deadline of a delivery from its arrival.
        run: longest a run, or a compilation, may take inside a delivery.
        ack_env: ack deadline in the worker's environment.
        ack_subscription: ack deadline of the subscription.
        heartbeat: how often a claim is renewed.
        stale_after: age of a heartbeat at which its claim may be taken over.
        run_lease: lease of a run.
        claim_retention: how long a claim is kept.
        message_retention: message retention of the subscription.
        ceiling: most attempts that work on one message.
        broker_env: broker attempts in the worker's environment; 0: the variable is absent.
        broker_attempts: max_delivery_attempts of the subscription.
        min_backoff: shortest pause before a redelivery.
        max_backoff: longest pause before a redelivery.
        startup_delay: initial delay of the startup probe.
        startup_period: period of the startup probe.
        startup_failures: failure threshold of the startup probe.
        drain: time that a service takes to drain.
        cpu_idle: True where the service has no CPU between requests.
        max_instances: most instances of the worker's service.
        concurrency: most requests that one instance takes at once.
        service_address: address of the worker's service.
        push_endpoint: where the subscription pushes to.
        push_audience: audience of the subscription's tokens.
        audience_env: audience in the worker's environment; "": absent, derived from the request's Host.
        custom_audiences: further audiences that the service's invoker check accepts.
        scheduler_deadline: attempt deadline of the scheduler job that calls the API.
        dispatch_deadline: dispatch deadline of the tasks that call the worker's service.
        executor_run: longest a synchronous run may take.
        executor_timeout: request timeout of the executor's service; None also where there is no executor.
        api_request_env: request timeout in the API's environment.
        api_timeout: request timeout of the API's service.
        sync_wait: longest that the API lets a synchronous caller wait.
        job_token_life: from signing to expiry of a job's token.
        max_queue_age: age at which an unfinished run expires.
        message_texts: texts of a message as published.
    """

    request_env: int | None = None
    service_timeout: int | None = None
    process: int | None = None
    run: int | None = None
    ack_env: int | None = None
    ack_subscription: int | None = None
    heartbeat: int | None = None
    stale_after: int | None = None
    run_lease: int | None = None
    claim_retention: int | None = None
    message_retention: int | None = None
    ceiling: int | None = None
    broker_env: int | None = None
    broker_attempts: int | None = None
    min_backoff: int | None = None
    max_backoff: int | None = None
    startup_delay: int | None = None
    startup_period: int | None = None
    startup_failures: int | None = None
    drain: int | None = None
    cpu_idle: bool | None = None
    max_instances: int | None = None
    concurrency: int | None = None
    service_address: str | None = None
    push_endpoint: str | None = None
    push_audience: str | None = None
    audience_env: str | None = None
    custom_audiences: tuple[str, ...] | None = None
    scheduler_deadline: int | None = None
    dispatch_deadline: int | None = None
    executor_run: int | None = None
    executor_timeout: int | None = None
    api_request_env: int | None = None
    api_timeout: int | None = None
    sync_wait: int | None = None
    job_token_life: int | None = None
    max_queue_age: int | None = None
    message_texts: tuple[str, ...] | None = None

    @property
    def request_name(self) -> str:
        """The fact that `request` is: what the platform does counts more than what the environment says of it."""
        return "request_env" if self.service_timeout is None else "service_timeout"

    @property
    def request(self) -> int | None:
        """Request timeout of the worker."""
        return self.request_env if self.service_timeout is None else self.service_timeout

    @property
    def ack_name(self) -> str:
        """The fact that `ack` is, see `request_name`."""
        return "ack_env" if self.ack_subscription is None else "ack_subscription"

    @property
    def ack(self) -> int | None:
        """Ack deadline of the subscription."""
        return self.ack_env if self.ack_subscription is None else self.ack_subscription

    @property
    def park(self) -> int | None:
        """Longest a delivery waits for another."""
        return None if self.stale_after is None or self.process is None else min(self.stale_after, self.process)

    def value(self, name: str) -> Fact:
        """A fact by its name."""
        value: Fact = getattr(self, name)
        return value


class Finding(NamedTuple):
    """One rule that does not hold.

    Attributes:
        id: the rule, `T01` to `T17`.
        settings: names of the facts involved; the first is the one to change.
        values: their values.
        rule: what must hold.
        passing: a value of the first setting with which the rule holds, or comes nearer to holding where two
            settings are wrong at once.
    """

    id: str
    settings: tuple[str, ...]
    values: tuple[Fact, ...]
    rule: str
    passing: Fact

    @property
    def message(self) -> str:
        """Settings, values, rule and a value that would pass; one line."""
        facts = ", ".join(
            f"{LABELS[name]} is {_shown(value)}" for name, value in zip(self.settings, self.values, strict=True)
        )
        return f"{self.id}: {facts}, but {self.rule}; {LABELS[self.settings[0]]} {_shown(self.passing)} would pass"


def finding(rule_id: str, facts: Alignment, names: Sequence[str], rule: str, passing: Fact) -> Finding:
    """A finding about these facts; the first name is the one to change."""
    return Finding(rule_id, tuple(names), tuple(facts.value(name) for name in names), rule, passing)


def _shown(value: Fact) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return repr(value) if isinstance(value, str) else str(value)


LABELS: Final = MappingProxyType(
    {
        "request_env": "GCP_QUEUE_REQUEST_TIMEOUT_SECS",
        "service_timeout": "the service template's timeout",
        "process": "GCP_QUEUE_PROCESS_TIMEOUT_SECS",
        "run": "the run timeout (EXECUTOR_TIMEOUT_SECS or COMPILER_TIMEOUT_SECS)",
        "ack_env": "GCP_QUEUE_ACK_DEADLINE_SECS",
        "ack_subscription": "the subscription's ack_deadline_seconds",
        "heartbeat": "GCP_QUEUE_CLAIM_HEARTBEAT_SECS",
        "stale_after": "GCP_QUEUE_CLAIM_STALE_AFTER_SECS",
        "run_lease": "API_RUN_LEASE_SECS",
        "claim_retention": "GCP_QUEUE_CLAIM_RETENTION_SECS",
        "message_retention": "the subscription's message_retention_duration",
        "ceiling": "GCP_QUEUE_MAX_DELIVERY_ATTEMPTS",
        "broker_env": "GCP_QUEUE_BROKER_MAX_ATTEMPTS",
        "broker_attempts": "the subscription's max_delivery_attempts",
        "min_backoff": "the subscription's minimum_backoff",
        "max_backoff": "the subscription's maximum_backoff",
        "startup_delay": "the startup probe's initial_delay_seconds",
        "startup_period": "the startup probe's period_seconds",
        "startup_failures": "the startup probe's failure_threshold",
        "drain": "the drain budget",
        "cpu_idle": "the service's cpu_idle",
        "max_instances": "the service's max_instance_count",
        "concurrency": "the service's max_instance_request_concurrency",
        "service_address": "the service's address",
        "push_endpoint": "the subscription's push_endpoint",
        "push_audience": "the subscription's oidc_token audience",
        "audience_env": "PUBSUB_PUSH_AUDIENCE",
        "custom_audiences": "the service's custom_audiences",
        "scheduler_deadline": "the scheduler job's attempt_deadline",
        "dispatch_deadline": "the tasks' dispatch_deadline",
        "executor_run": "EXECUTOR_TIMEOUT_SECS of the executor",
        "executor_timeout": "the executor's service timeout",
        "api_request_env": "API_REQUEST_TIMEOUT_SECS",
        "api_timeout": "the API's service timeout",
        "sync_wait": "the API's synchronous wait",
        "job_token_life": "API_JOB_TOKEN_LIFE_SECS",
        "max_queue_age": "API_MAX_QUEUE_AGE_SECS",
        "message_texts": "the message",
    }
)
"""How messages name each fact."""
