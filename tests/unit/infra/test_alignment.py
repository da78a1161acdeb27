"""Timeouts are given once: the rest follows, agrees with the rules, and what does not fit is told with a way out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.alignment import Plans, align
from infra.misalignment import Change, misalignments
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from runtime.contract.timeouts import advise, check
from tests.support.stacks import refused

SIZE = {
    "cpu": st.sampled_from(["1", "2", "4", "6", "8"]),
    "memory": st.sampled_from(
        ["128Mi", "2047Mi", "2Gi", "4095Mi", "4Gi", "4097Mi", "8193Mi", "16385Mi", "25Gi", "32Gi"]
    ),
}
WORKER = {
    **SIZE,
    "request_timeout_seconds": st.integers(60, 3600),
    "run_timeout_seconds": st.integers(1, 3570),
    "heartbeat_seconds": st.integers(5, 600),
    "stale_after_seconds": st.integers(30, 3600),
    "max_attempts": st.integers(1, 100),
    "minimum_backoff_seconds": st.integers(0, 600),
    "maximum_backoff_seconds": st.integers(0, 600),
    "message_retention_seconds": st.integers(600, 604800),
    "claim_retention_seconds": st.integers(3600, 604800),
    "concurrency": st.integers(1, 5),
    "max_instances": st.integers(1, 5),
    "min_instances": st.integers(0, 5),
}
API = {
    **SIZE,
    "run_retention_seconds": st.integers(3600, 700000),
    "max_instances": st.integers(1, 3),
    "request_timeout_seconds": st.integers(60, 3600),
}
EXECUTOR = {
    **SIZE,
    "run_timeout_seconds": st.integers(1, 3570),
    "max_instances": st.integers(1, 3),
    "min_instances": st.integers(0, 3),
}
sections = st.builds(
    lambda worker, api, executor: Plans(
        WorkerPlan.model_validate(worker),
        ApiPlan.model_validate(api),
        None if executor is None else ExecutorPlan.model_validate(executor),
    ),
    st.fixed_dictionaries({}, optional=WORKER),
    st.fixed_dictionaries({}, optional=API),
    st.none() | st.fixed_dictionaries({}, optional=EXECUTOR),
)


def plans(api: dict[str, Any] | None = None, **worker: Any) -> Plans:
    return Plans(WorkerPlan.model_validate(worker), ApiPlan.model_validate(api or {}))


def changed(before: Plans, changes: tuple[Change, ...]) -> Plans:
    """The plans as someone who follows a message would change them."""
    for change in changes:
        section, field = change.setting
        plan = getattr(before, section)
        name = type(plan).model_fields[field].annotation
        lasting = name is timedelta or "timedelta" in str(name)
        value = timedelta(seconds=change.value) if lasting and isinstance(change.value, int) else change.value
        before = replace(before, **{section: plan.model_copy(update={field: value})})
    return before


def test_the_defaults_agree_and_need_no_advice() -> None:
    facts = align(plans())

    assert misalignments(plans()) == []
    assert advise(facts) == []
    assert (facts.process, facts.ack_env, facts.broker_attempts, facts.stale_after) == (570, 600, 20, 180)
    assert (facts.message_retention, facts.claim_retention, facts.job_token_life) == (86400, 86400, 87300)


def test_what_is_given_replaces_what_would_follow_and_the_rest_follows_from_it() -> None:
    facts = align(plans(stale_after_seconds=90, message_retention_seconds=172800, claim_retention_seconds=200000))

    assert (facts.stale_after, facts.run_lease) == (90, 60)
    assert (facts.message_retention, facts.claim_retention) == (172800, 200000)
    assert (facts.job_token_life, facts.max_queue_age) == (172800 + 900, 172800)


@given(st.integers(1, 3570))
def test_an_executor_outlasts_every_run_by_the_time_to_settle(run: int) -> None:
    facts = align(Plans(WorkerPlan(), ApiPlan(), ExecutorPlan.model_validate({"run_timeout_seconds": run})))
    assert check(facts) == []
    assert facts.executor_timeout == min(run + 60, 3600)


def test_a_long_request_gets_the_cpu_it_needs_and_more_broker_attempts() -> None:
    """BR-46: redeliveries park while the owner works, and each costs the broker an attempt."""
    facts = align(plans(request_timeout_seconds=3600, run_timeout_seconds=3540))

    assert facts.cpu_idle is False
    assert facts.ack_subscription == 600
    assert (facts.broker_attempts or 0) >= 9
    assert align(plans()).cpu_idle is True


@given(sections)
def test_every_rule_that_does_not_hold_is_told_with_a_change_that_makes_it_hold(stack: Plans) -> None:
    for found in misalignments(stack):
        after = changed(stack, found.passing)
        assert found.rule_id not in {other.rule_id for other in misalignments(after)}, found


@given(sections)
def test_the_contracts_rules_are_all_asked(stack: Plans) -> None:
    told = {found.rule_id for found in misalignments(stack)}
    assert {finding.id for finding in check(align(stack))} <= told


@pytest.mark.parametrize(
    ("sections_", "expected"),
    [
        (
            {"worker": {"run_timeout_seconds": 3000}},
            (
                "misaligned_stack_value: holdfast:worker.run_timeout_seconds is 3000, "
                "holdfast:worker.request_timeout_seconds is 600, but a run must end 30 s before its delivery does "
                "(T03: run 3000, process 570): the end of a run would be cut off before its result is recorded; "
                "holdfast:worker.run_timeout_seconds: 540 would pass"
            ),
        ),
        (
            {"worker": {"request_timeout_seconds": 3600, "heartbeat_seconds": 300}},
            (
                "misaligned_stack_value: holdfast:worker.heartbeat_seconds is 300, but a claim must be stale after no "
                "less than 3 heartbeats, and 15 s after the first is missed (T07: stale after 570, heartbeat 300): a "
                "live delivery would lose its claim, and its work would be done twice; "
                "holdfast:worker.heartbeat_seconds: 30 would pass"
            ),
        ),
        (
            {"api": {"run_retention_seconds": 3600}},
            (
                "misaligned_stack_value: holdfast:api.run_retention_seconds is 3600, but a run's record must be kept "
                "for as long as the run may be queued (retention: run retention 3600, max queue age 86400): a record "
                "would go while its run can still be worked, and the run would be forgotten; "
                "holdfast:api.run_retention_seconds: 86400 would pass"
            ),
        ),
        (
            {"worker": {"minimum_backoff_seconds": 60, "maximum_backoff_seconds": 30}},
            (
                "misaligned_stack_value: holdfast:worker.minimum_backoff_seconds is 60, "
                "holdfast:worker.maximum_backoff_seconds is 30, but the shortest pause must not be longer than the "
                "longest (backoff: min backoff 60, max backoff 30): Pub/Sub would refuse the subscription; "
                "holdfast:worker.minimum_backoff_seconds: 30 would pass"
            ),
        ),
        (
            {"api": {"min_instances": 2, "max_instances": 1}},
            (
                "misaligned_stack_value: holdfast:api.min_instances is 2, holdfast:api.max_instances is 1, but no more "
                "instances can always be there than may be there at most (api-instances: api min 2, api max 1): "
                "the platform would refuse the service; holdfast:api.min_instances: 1 would pass"
            ),
        ),
        (
            {"api": {"request_timeout_seconds": 900}, "executor": {}},
            (
                "misaligned_stack_value: holdfast:api.request_timeout_seconds is 900, "
                "holdfast:executor.run_timeout_seconds is 3540, but the API must be able to wait for as long as the "
                "executor may answer (T17: api timeout 900, executor timeout 3600): a caller would be cut off although "
                "the run goes on and would have answered; holdfast:api.request_timeout_seconds: 3600 would pass"
            ),
        ),
        (
            {"executor": {"cpu": "8", "memory": "2Gi"}},
            (
                "misaligned_stack_value: holdfast:executor.memory is 2Gi, holdfast:executor.cpu is 8, but 8 CPUs must "
                "have at least 4Gi (executor-memory: executor memory 2Gi, executor cpu 8): the platform would refuse "
                'the service; holdfast:executor.memory: "4Gi" would pass'
            ),
        ),
        (
            {"worker": {"memory": "10Gi"}},
            (
                "misaligned_stack_value: holdfast:worker.cpu is 1, holdfast:worker.memory is 10Gi, but 10Gi must have "
                "at least 4 CPUs (worker-memory: worker cpu 1, worker memory 10Gi): the platform would refuse the "
                'service; holdfast:worker.cpu: "4" would pass'
            ),
        ),
        (
            {"executor": {"min_instances": 11}},
            (
                "misaligned_stack_value: holdfast:executor.min_instances is 11, holdfast:executor.max_instances is 10, "
                "but no more instances can always be there than may be there at most (executor-instances: "
                "executor min 11, executor max 10): the platform would refuse the service; "
                "holdfast:executor.min_instances: 10 would pass"
            ),
        ),
    ],
)
def test_what_does_not_fit_together_is_told_in_the_stacks_own_words(
    sections_: dict[str, dict[str, Any]], expected: str
) -> None:
    assert refused(**sections_) == [expected]
