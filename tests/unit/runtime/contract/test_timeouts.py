"""The timeout rules, each at its edge, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.alignment import LABELS, Alignment, Finding
from runtime.contract.timeouts import RULES, advise, check

ADDRESS = "https://worker-1.europe-west1.run.app"
DEFAULTS = Alignment(
    request_env=600, service_timeout=600, process=570, run=540, ack_env=600, ack_subscription=600, heartbeat=30,
    stale_after=180, run_lease=150, claim_retention=86400, message_retention=86400, ceiling=3, broker_env=20,
    broker_attempts=20, min_backoff=10, max_backoff=600, startup_delay=0, startup_period=1, startup_failures=30,
    drain=10, cpu_idle=True, max_instances=1, concurrency=1, service_address=ADDRESS, push_endpoint=ADDRESS,
    push_audience=ADDRESS, audience_env=ADDRESS, custom_audiences=(ADDRESS,), scheduler_deadline=60,
    dispatch_deadline=600, executor_run=3540, executor_timeout=3600, api_request_env=3600, api_timeout=3600,
    sync_wait=3570, job_token_life=87300, max_queue_age=86400, message_texts=("job", "https://api.example/x?a=b"),
)  # fmt: skip
LONG = DEFAULTS._replace(
    request_env=3600, service_timeout=3600, process=3570, run=3540, cpu_idle=False, max_instances=2,
    broker_env=53, broker_attempts=53, job_token_life=90300,
)  # fmt: skip


def found(facts: Alignment) -> list[tuple[str, str, object]]:
    return [(finding.id, finding.settings[0], finding.passing) for finding in check(facts)]


def test_the_defaults_of_the_design_agree() -> None:
    assert check(DEFAULTS) == []


def test_the_longest_requests_agree_with_enough_attempts() -> None:
    assert check(LONG) == []


@pytest.mark.parametrize(
    ("changes", "rule", "setting", "passing"),
    [
        ({"request_env": 599}, "T01", "request_env", 600),
        ({"api_request_env": 3599}, "T01", "api_request_env", 3600),
        ({"process": 571}, "T02", "process", 570),
        ({"process": 569}, "T03", "run", 539),
        ({"executor_run": 0}, "T04", "executor_run", 3570),
        ({"executor_run": 3571}, "T04", "executor_run", 3570),
        ({"executor_timeout": 3569}, "T04", "executor_run", 3539),
        ({"ack_env": 599}, "T05", "ack_env", 600),
        ({"ack_env": 9}, "T05", "ack_env", 10),
        ({"ack_subscription": 601}, "T05", "ack_subscription", 600),
        ({"ack_env": 599, "ack_subscription": 599, "max_instances": 2, "cpu_idle": False}, "T06", "ack_subscription",
         600),
        ({"stale_after": 89}, "T07", "stale_after", 90),
        ({"heartbeat": 5, "stale_after": 19}, "T07", "stale_after", 20),
        ({"run_lease": 151}, "T07", "run_lease", 150),
        ({"claim_retention": 1140, "message_retention": None}, "T08", "claim_retention", 1141),
        ({"claim_retention": 86399}, "T08", "claim_retention", 86400),
        ({"broker_attempts": 4, "broker_env": 4}, "T09", "broker_attempts", 5),
        ({"broker_attempts": 101, "broker_env": 101, "max_backoff": 0}, "T09", "broker_attempts", 100),
        ({"broker_env": 19}, "T09", "broker_env", 20),
        ({"broker_env": 0}, "T09", "broker_env", 20),
        ({"ceiling": 11}, "T09", "broker_attempts", 21),
        ({"ceiling": 51}, "T09", "ceiling", 50),
        ({"max_queue_age": 23999}, "T10", "max_queue_age", 24000),
        ({"message_retention": 23999}, "T10", "message_retention", 24000),
        ({"push_endpoint": "https://other.run.app"}, "T11", "push_endpoint", ADDRESS),
        ({"push_audience": "https://x", "audience_env": "https://x"}, "T11", "push_audience", ADDRESS),
        ({"audience_env": "https://x"}, "T11", "audience_env", ADDRESS),
        ({"audience_env": "", "push_audience": "https://x", "custom_audiences": ("https://x",)}, "T11",
         "push_audience", ADDRESS),
        ({"startup_failures": 241}, "T13", "startup_failures", 240),
        ({"startup_delay": 211}, "T13", "startup_failures", 29),
        ({"drain": 11}, "T13", "drain", 10),
        ({"scheduler_deadline": 3601}, "T14", "scheduler_deadline", 3600),
        ({"dispatch_deadline": 601}, "T14", "dispatch_deadline", 600),
        ({"job_token_life": 87299}, "T15", "job_token_life", 87300),
        ({"message_texts": ("a", "https://x/o?X-Goog-Signature=1")}, "T16", "message_texts", ("a",)),
        ({"api_timeout": 3599, "api_request_env": 3599, "sync_wait": None}, "T17", "api_timeout", 3600),
        ({"sync_wait": 3571}, "T17", "sync_wait", 3570),
    ],
)  # fmt: skip
def test_one_step_over_the_edge_is_one_finding(
    changes: dict[str, Any], rule: str, setting: str, passing: object
) -> None:
    assert found(DEFAULTS._replace(**changes)) == [(rule, setting, passing)]


@pytest.mark.parametrize(
    ("changes", "rule", "setting", "passing"),
    [
        ({"cpu_idle": True}, "T12", "cpu_idle", False),
        ({"max_instances": 1}, "T12", "max_instances", 2),
        ({"stale_after": 571, "run_lease": 541}, "T12", "stale_after", 570),
        ({"broker_env": 52, "broker_attempts": 52}, "T09", "broker_attempts", 53),
        ({"ceiling": 6, "broker_env": 100, "broker_attempts": 100, "message_retention": None, "max_queue_age": None},
         "T09", "ceiling", 5),
    ],
)  # fmt: skip
def test_where_the_broker_hangs_up_first_more_is_needed(
    changes: dict[str, Any], rule: str, setting: str, passing: object
) -> None:
    """BR-46"""
    assert found(LONG._replace(**changes)) == [(rule, setting, passing)]


def test_an_audience_may_be_another_if_the_service_accepts_it() -> None:
    other: dict[str, Any] = {"push_audience": "https://x", "audience_env": "https://x"}
    assert check(DEFAULTS._replace(**other, custom_audiences=(ADDRESS, "https://x"))) == []


def test_a_path_of_its_own_is_no_other_endpoint_and_any_further_one_is() -> None:
    """BR-31"""
    assert check(DEFAULTS._replace(push_endpoint=f"{ADDRESS}/")) == []
    assert found(DEFAULTS._replace(push_endpoint=f"{ADDRESS}/push"))[0][:2] == ("T11", "push_endpoint")


def test_without_the_services_address_the_endpoint_says_what_the_audience_must_be() -> None:
    facts = Alignment(push_endpoint=f"{ADDRESS}/", push_audience="https://x", audience_env="https://x",
                      custom_audiences=())  # fmt: skip
    assert found(facts) == [("T11", "push_audience", ADDRESS)]


def test_a_worker_that_is_not_told_the_brokers_number_needs_the_least() -> None:
    assert check(DEFAULTS._replace(broker_env=0, broker_attempts=5)) == []


def test_advice_is_no_finding() -> None:
    assert advise(DEFAULTS) == []
    (finding,) = advise(DEFAULTS._replace(startup_failures=31))
    assert (finding.id, finding.settings[0], finding.passing) == ("T06", "process", 569)
    assert check(DEFAULTS._replace(startup_failures=31)) == []


def test_a_signed_url_is_not_repeated() -> None:
    (finding,) = check(Alignment(message_texts=("https://x/o?a=1&X-Goog-Signature=hunter2",)))
    assert "hunter2" not in finding.message
    assert "hunter2" not in repr(finding)


def test_a_message_names_rule_settings_values_and_a_value_that_would_pass() -> None:
    (finding,) = check(Alignment(request_env=600, process=571))
    assert finding.message == (
        "T02: GCP_QUEUE_PROCESS_TIMEOUT_SECS is 571, GCP_QUEUE_REQUEST_TIMEOUT_SECS is 600, but a delivery must end "
        "30 s before its request is cut; GCP_QUEUE_PROCESS_TIMEOUT_SECS 570 would pass"
    )


def test_every_fact_has_a_label() -> None:
    assert set(LABELS) == set(Alignment._fields)


seconds = st.integers(0, 4000)
counts = st.integers(0, 120)
CHOICES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ["request_env", "service_timeout", "process", "run", "ack_env", "ack_subscription", "heartbeat",
         "stale_after", "run_lease", "scheduler_deadline", "dispatch_deadline", "executor_run", "executor_timeout",
         "api_request_env", "api_timeout", "sync_wait"],
        seconds,
    ),
    **dict.fromkeys(["claim_retention", "message_retention", "job_token_life", "max_queue_age"],
                    st.integers(0, 200_000)),
    **dict.fromkeys(["ceiling", "max_instances", "concurrency"], st.integers(1, 120)),
    **dict.fromkeys(["broker_env", "broker_attempts", "drain"], counts),
    **dict.fromkeys(["min_backoff", "max_backoff", "startup_delay"], st.integers(0, 600)),
    **dict.fromkeys(["startup_period", "startup_failures"], st.integers(1, 300)),
    "cpu_idle": st.booleans(),
    **dict.fromkeys(["service_address", "push_endpoint", "push_audience"],
                    st.sampled_from([ADDRESS, "https://x", "https://y.example"])),
    "audience_env": st.sampled_from([ADDRESS, "", "https://x"]),
    "custom_audiences": st.sampled_from([(), (ADDRESS,), ("https://x", ADDRESS)]),
    "message_texts": st.just(("plain", "https://x/?sig=1")),
}  # fmt: skip
facts_of_any_kind = st.fixed_dictionaries({}, optional=CHOICES).map(lambda facts: Alignment(**facts))


@given(facts_of_any_kind)
def test_what_is_suggested_leads_to_facts_that_pass(facts: Alignment) -> None:
    for rule_id, rule in RULES.items():
        tried = facts
        for _ in range(6):
            findings = list(rule(tried))
            if not findings:
                break
            change: dict[str, Any] = {findings[0].settings[0]: findings[0].passing}
            tried = tried._replace(**change)
        assert list(rule(tried)) == [], f"{rule_id}: {facts}"


@given(facts_of_any_kind)
def test_a_finding_says_what_it_saw(facts: Alignment) -> None:
    for finding in check(facts):
        assert len(finding.settings) == len(finding.values)
        assert "\n" not in finding.message
        if finding.id != "T16":
            assert finding.values == tuple(facts.value(name) for name in finding.settings)


@given(facts_of_any_kind, st.sampled_from(sorted(CHOICES)))
def test_not_knowing_a_fact_only_silences_rules(facts: Alignment, name: str) -> None:
    """Where two numbers tell one fact, the other one may speak in its place; a rule that the fact had ended goes on."""
    if name in {"service_timeout", "ack_subscription", "broker_attempts", "service_address"}:
        return
    known = {(finding.id, finding.settings[0]) for finding in check(facts)}
    for finding in check(facts._replace(**{name: None})):
        assert known & {(finding.id, finding.settings[0]), (finding.id, name)} or finding.id == "T12"


SLACK = [
    ("T02", "process", -1), ("T02", "service_timeout", 1), ("T03", "run", -1), ("T03", "process", 1),
    ("T04", "executor_timeout", 1), ("T06", "ack_subscription", 1), ("T08", "claim_retention", 1),
    ("T08", "process", -1), ("T08", "message_retention", -1), ("T10", "message_retention", 1),
    ("T10", "max_queue_age", 1), ("T10", "max_backoff", -1), ("T12", "max_instances", 1), ("T12", "concurrency", 1),
    ("T12", "ack_subscription", 1), ("T13", "startup_delay", -1), ("T13", "startup_failures", -1),
    ("T13", "startup_period", -1), ("T13", "drain", -1), ("T14", "scheduler_deadline", -1), ("T14", "api_timeout", 1),
    ("T14", "dispatch_deadline", -1), ("T14", "service_timeout", 1), ("T15", "job_token_life", 1),
    ("T15", "message_retention", -1), ("T17", "api_timeout", 1), ("T17", "executor_timeout", -1),
    ("T17", "sync_wait", -1),
]  # fmt: skip


@given(facts_of_any_kind, st.sampled_from(SLACK), st.integers(1, 500))
def test_more_room_never_makes_a_finding(facts: Alignment, slack: tuple[str, str, int], step: int) -> None:
    rule_id, name, direction = slack
    value = facts.value(name)
    if not isinstance(value, int):
        return
    change: dict[str, Any] = {name: max(0, value + direction * step)}
    roomier = facts._replace(**change)

    def settings(found: list[Finding]) -> set[str]:
        return {name for finding in found for name in finding.settings}

    before, after = list(RULES[rule_id](facts)), list(RULES[rule_id](roomier))
    assert settings(after) <= settings(before)


@given(facts_of_any_kind, st.integers(1, 40))
def test_more_attempts_of_the_broker_are_never_too_few(facts: Alignment, more: int) -> None:
    if facts.broker_attempts is None or facts.broker_attempts + more > 100 or facts.broker_attempts < 5:
        return
    told = facts._replace(broker_env=facts.broker_attempts)
    roomier = told._replace(broker_attempts=facts.broker_attempts + more, broker_env=facts.broker_attempts + more)
    assert len(list(RULES["T09"](roomier))) <= len(list(RULES["T09"](told)))
