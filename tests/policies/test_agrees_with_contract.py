"""Two readings of one agreement: what the contract says of numbers, the pack says of the resources that carry them.

Here every number may be wrong by itself, also those that no setting can get wrong; what settings can is in
`test_settings.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.rules import RULES
from runtime.contract.alignment import Alignment
from runtime.contract.timeouts import check
from tests.support.policy_programs import Change, Program, address, extended

ADDRESS: Final = address("holdfast-execution")
OTHER: Final = "https://other.example"
WORKER, API, PUSH = "Service/execution-service", "Service/api-service", "Subscription/execution-push"
TIMEOUTS: Final = [rule for rule in RULES if rule.id.startswith("T")]
NOT_OF_NUMBERS: Final = {"T16"}
"""Signed URLs in messages: nothing that settings could say."""

PLACES: Final[dict[str, tuple[str, str, str]]] = {
    "request_env": (WORKER, "env.GCP_QUEUE_REQUEST_TIMEOUT_SECS", "{}"),
    "service_timeout": (WORKER, "template.timeout", "{}s"),
    "process": (WORKER, "env.GCP_QUEUE_PROCESS_TIMEOUT_SECS", "{}"),
    "run": (WORKER, "env.EXECUTOR_TIMEOUT_SECS", "{}"),
    "ack_env": (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "{}"),
    "ack_subscription": (PUSH, "ackDeadlineSeconds", ""),
    "heartbeat": (WORKER, "env.GCP_QUEUE_CLAIM_HEARTBEAT_SECS", "{}"),
    "stale_after": (WORKER, "env.GCP_QUEUE_CLAIM_STALE_AFTER_SECS", "{}"),
    "run_lease": (API, "env.API_RUN_LEASE_SECS", "{}"),
    "claim_retention": (WORKER, "env.GCP_QUEUE_CLAIM_RETENTION_SECS", "{}"),
    "message_retention": (PUSH, "messageRetentionDuration", "{}s"),
    "ceiling": (WORKER, "env.GCP_QUEUE_MAX_DELIVERY_ATTEMPTS", "{}"),
    "broker_env": (WORKER, "env.GCP_QUEUE_BROKER_MAX_ATTEMPTS", "{}"),
    "broker_attempts": (PUSH, "deadLetterPolicy.maxDeliveryAttempts", ""),
    "min_backoff": (PUSH, "retryPolicy.minimumBackoff", "{}s"),
    "max_backoff": (PUSH, "retryPolicy.maximumBackoff", "{}s"),
    "startup_delay": (WORKER, "template.containers.0.startupProbe.initialDelaySeconds", ""),
    "startup_period": (WORKER, "template.containers.0.startupProbe.periodSeconds", ""),
    "startup_failures": (WORKER, "template.containers.0.startupProbe.failureThreshold", ""),
    "cpu_idle": (WORKER, "template.containers.0.resources.cpuIdle", "flag"),
    "max_instances": (WORKER, "template.scaling.maxInstanceCount", ""),
    "concurrency": (WORKER, "template.maxInstanceRequestConcurrency", ""),
    "push_endpoint": (PUSH, "pushConfig.pushEndpoint", "{}"),
    "push_audience": (PUSH, "pushConfig.oidcToken.audience", "{}"),
    "audience_env": (WORKER, "env.PUBSUB_PUSH_AUDIENCE", "{}"),
    "custom_audiences": (WORKER, "customAudiences", "list"),
    "scheduler_deadline": ("Job/tick-job", "attemptDeadline", "{}s"),
    "executor_run": ("Service/executor-service", "env.EXECUTOR_TIMEOUT_SECS", "{}"),
    "executor_timeout": ("Service/executor-service", "template.timeout", "{}s"),
    "api_request_env": (API, "env.API_REQUEST_TIMEOUT_SECS", "{}"),
    "api_timeout": (API, "template.timeout", "{}s"),
    "job_token_life": (API, "env.API_JOB_TOKEN_LIFE_SECS", "{}"),
    "max_queue_age": (API, "env.API_MAX_QUEUE_AGE_SECS", "{}"),
}
"""Fact -> where a resource carries it, and how it is spelled there; "" is a number."""

ABSENT: Final[dict[str, Any]] = {
    "service_timeout": 300, "ack_subscription": 10, "message_retention": 604_800, "broker_env": 0,
    "broker_attempts": 5, "min_backoff": 10, "max_backoff": 600, "startup_delay": 0, "startup_period": 10,
    "startup_failures": 3, "cpu_idle": False, "concurrency": 80, "audience_env": "", "scheduler_deadline": 180,
    "executor_timeout": 300, "api_timeout": 300,
}  # fmt: skip
"""Fact -> what it is where the resource leaves it out: the platform's default."""


def near(*values: int) -> st.SearchStrategy[int]:
    """These values, and those beside them."""
    return st.sampled_from([value + step for value in values for step in (-1, 0, 1)])


FACTS: Final = st.fixed_dictionaries(
    {
        "request_env": near(600, 3600),
        "service_timeout": near(300, 600, 3599),
        "process": near(270, 570, 3570),
        "run": near(240, 540, 3540),
        "ack_env": near(10, 300, 600),
        "ack_subscription": near(10, 300, 600),
        "heartbeat": near(6, 30, 60),
        "stale_after": near(20, 90, 180, 570),
        "run_lease": near(60, 150),
        "claim_retention": near(1140, 86_400, 604_800),
        "message_retention": near(24_000, 86_400, 604_800),
        "ceiling": near(3, 10),
        "broker_env": near(5, 20, 53, 100),
        "broker_attempts": near(5, 20, 53, 100),
        "min_backoff": near(1, 10),
        "max_backoff": near(60, 599),
        "startup_delay": near(1, 210),
        "startup_period": near(2, 10),
        "startup_failures": near(3, 24, 120),
        "cpu_idle": st.booleans(),
        "max_instances": near(2),
        "concurrency": near(2),
        "push_endpoint": st.sampled_from([ADDRESS, f"{ADDRESS}/", f"{ADDRESS}/push", OTHER]),
        "push_audience": st.sampled_from([ADDRESS, OTHER]),
        "audience_env": st.sampled_from([ADDRESS, OTHER]),
        "custom_audiences": st.sampled_from([(ADDRESS,), (ADDRESS, OTHER)]),
        "scheduler_deadline": near(60, 180, 3600),
        "executor_run": near(1, 270, 3540, 3570),
        "executor_timeout": near(300, 3599),
        "api_request_env": near(3599),
        "api_timeout": near(300, 3599),
        "job_token_life": near(86_400 + 900, 604_800 + 900),
        "max_queue_age": near(24_000, 86_400),
    }
)
SOME: Final = st.sets(st.sampled_from(sorted(PLACES)), min_size=1, max_size=4)
"""Few facts are wrong at a time, or every rule would be broken always."""


def spelled(fact: str, value: Any) -> Change:
    """The change that puts a fact into a program; None leaves it out."""
    key, path, form = PLACES[fact]
    if value is None or form == "flag":
        return key, path, value
    if form == "list":
        return key, path, list(value)
    return key, path, float(value) if form == "" else form.format(value)


DEFAULTS: Final[dict[str, Any]] = {
    "request_env": 600, "service_timeout": 600, "process": 570, "run": 540, "ack_env": 600, "ack_subscription": 600,
    "heartbeat": 30, "stale_after": 180, "run_lease": 150, "claim_retention": 86_400, "message_retention": 86_400,
    "ceiling": 3, "broker_env": 20, "broker_attempts": 20, "min_backoff": 10, "max_backoff": 600, "startup_delay": 0,
    "startup_period": 1, "startup_failures": 30, "cpu_idle": True, "max_instances": 10, "concurrency": 1,
    "push_endpoint": ADDRESS, "push_audience": ADDRESS, "audience_env": ADDRESS, "custom_audiences": (ADDRESS,),
    "scheduler_deadline": 60, "executor_run": 3540, "executor_timeout": 3600, "api_request_env": 3600,
    "api_timeout": 3600, "job_token_life": 87_300, "max_queue_age": 86_400,
}  # fmt: skip
LONG: Final[dict[str, Any]] = {
    **DEFAULTS, "request_env": 3600, "service_timeout": 3600, "process": 3570, "run": 3540, "cpu_idle": False,
    "broker_env": 53, "broker_attempts": 53, "job_token_life": 90_300,
}  # fmt: skip


EXAMPLES: Final = 500
RARE: Final[dict[str, Any]] = {"scheduler_deadline": 3601, "run": 541, "startup_failures": 241}
"""What chance alone does not find often enough."""


def test_the_pack_and_the_contract_find_the_same_rules_broken() -> None:
    """In settings that break no rule, and in settings that break each of them."""
    reached: Counter[str] = Counter()
    kinds = {key.partition("/")[0] for key, _, _ in PLACES.values()} | {"Topic"}
    compared = Program(each for key, each in extended().declared.items() if key.partition("/")[0] in kinds)

    @settings(max_examples=EXAMPLES, deadline=None)
    @example(DEFAULTS, set(RARE), {**DEFAULTS, **RARE}, set())
    @given(st.sampled_from([DEFAULTS, LONG]), SOME, FACTS, st.sets(st.sampled_from(sorted(ABSENT)), max_size=1))
    def agree(base: dict[str, Any], wrong: set[str], drawn: dict[str, Any], absent: set[str]) -> None:
        facts = {**base, **{name: drawn[name] for name in wrong}, **{name: ABSENT[name] for name in absent}}
        changes = [spelled(name, None if name in absent else value) for name, value in facts.items()]
        said = {found.id for found in check(Alignment(service_address=ADDRESS, **facts))}
        reached.update(said or {"none"})
        assert compared.changed(*changes).broken(rules=TIMEOUTS) == said

    agree()
    assert reached.keys() == {"none", *(rule.id for rule in TIMEOUTS)} - NOT_OF_NUMBERS, reached
