"""What cannot be read breaks the rule that needs it, and no rule says what a value was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi_policy.proxy import UNKNOWN_NUMBER_VALUE, UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from policies.facts import Facts
from policies.pack import policies
from policies.properties import UNKNOWN, UNKNOWN_TEXTS, Properties, Unreadable, plain
from policies.rules import RULES
from policies.verdict import details, judge
from tests.support.policy_programs import CONFIGURATION, extended, rendered

WORKER, API, PUSH = "Service/execution-service", "Service/api-service", "Subscription/execution-push"


@pytest.mark.parametrize(
    ("rules", "change"),
    [
        ({"T01", "T02", "T06", "T09", "T12", "T15"}, (WORKER, "template.timeout", UNKNOWN_STRING_VALUE)),
        ({"T05", "T06", "T10", "T12", "D10"}, (PUSH, "ackDeadlineSeconds", UNKNOWN_NUMBER_VALUE)),
        ({"T08", "T10", "T15"}, (PUSH, "messageRetentionDuration", UNKNOWN_STRING_VALUE)),
        ({"R18"}, (WORKER, "template.containers.0.image", UNKNOWN_STRING_VALUE)),
        ({"R11"}, (WORKER, "env.SHOP_TOKEN", UNKNOWN_STRING_VALUE)),
        ({"X01"}, (API, "ingress", UNKNOWN_STRING_VALUE)),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_an_unknown_value_breaks_the_rules_that_need_it(rules: set[str], change: tuple[str, str, Any]) -> None:
    configuration = {**CONFIGURATION, "X01": {"public_services": []}} if rules == {"X01"} else CONFIGURATION
    broken = extended().with_(*change).broken(configuration)
    assert rules <= broken


def test_a_violation_says_what_cannot_be_read() -> None:
    lines = rendered().with_(PUSH, "ackDeadlineSeconds", UNKNOWN_NUMBER_VALUE).lines("T06")
    because = "its value is not known before the deployment, so nothing says that the rule holds"
    assert lines == [f"execution-push: ackDeadlineSeconds cannot be read: {because}"]


def test_addresses_that_are_not_known_yet_do_not_hide_which_service_they_are_of() -> None:
    """A first preview of a program whose push settings come from the service: the pair is known, the address is not."""
    program = rendered().changed(
        (PUSH, "pushConfig.pushEndpoint", UNKNOWN_STRING_VALUE),
        (PUSH, "pushConfig.oidcToken.audience", UNKNOWN_STRING_VALUE),
    )
    worker = program.declared[WORKER].urn
    push = program.declared[PUSH]
    push.property_dependencies = {**push.property_dependencies, "pushConfig": (worker,)}
    assert program.broken() == set()
    assert program.with_(PUSH, "ackDeadlineSeconds", 60.0).broken() >= {"T05", "T06"}


def test_a_push_to_nobody_knows_where_is_a_violation() -> None:
    program = rendered().unlinked(PUSH).with_(PUSH, "pushConfig.pushEndpoint", UNKNOWN_STRING_VALUE)
    assert {"T11", "X06"} <= program.broken()


def test_the_sentinels_are_those_of_the_policy_sdk() -> None:
    from pulumi_policy import proxy

    assert {value for name, value in vars(proxy).items() if name.startswith("UNKNOWN_")} == UNKNOWN_TEXTS


def test_properties_are_read_through_the_engines_proxies() -> None:
    given: dict[str, Any] = {"a": {"b": [1.0, UNKNOWN_STRING_VALUE]}, "c": UNKNOWN_NUMBER_VALUE}
    proxied: Any = unknown_checking_proxy(given)
    assert isinstance(proxied, Mapping)
    assert isinstance(proxied["a"]["b"], Sequence)

    read = plain(proxied, UnknownValueError)

    assert read == {"a": {"b": [1.0, UNKNOWN]}, "c": UNKNOWN}
    properties = Properties(read)
    assert properties.number("a", "b", 0) == 1
    assert properties.has("c")
    with pytest.raises(Unreadable, match=r"a\.b\.1"):
        properties.text("a", "b", 1)


secrets = st.text("abcdefghij0123456789", min_size=24, max_size=32).map(lambda text: f"S3CR3T{text}")
places = st.sampled_from(
    [
        (WORKER, "env.SHOP_TOKEN"),
        (WORKER, "env.GCP_QUEUE_PROCESS_TIMEOUT_SECS"),
        (WORKER, "env.PUBSUB_PUSH_AUDIENCE"),
        (WORKER, "env.PUBSUB_PUSH_AUTH"),
        (WORKER, "template.timeout"),
        (WORKER, "template.containers.0.image"),
        (API, "env.BACKEND_KEY"),
        (API, "env.EXECUTOR_URL"),
        (PUSH, "pushConfig.pushEndpoint"),
        (PUSH, "pushConfig.oidcToken.audience"),
        (PUSH, "ackDeadlineSeconds"),
        (PUSH, "deadLetterPolicy.deadLetterTopic"),
        ("Job/tick-job", "httpTarget.body"),
        ("SecretVersion/signing-version", "secretData"),
        ("Topic/objects", "labels.part"),
    ]
)


@settings(max_examples=40, deadline=None)
@given(places, secrets, st.sampled_from(["{}", "https://x.example/?sig={}", "-----BEGIN PRIVATE KEY-----{}"]))
def test_no_message_repeats_a_value(place: tuple[str, str], secret: str, form: str) -> None:
    """The engine hands secrets over unwrapped."""
    found = judge(extended().with_(*place, form.format(secret)).resources(), CONFIGURATION)
    assert [each.message for each in found if secret in each.message] == []


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_shape_of_a_property_ends_the_pack(data: st.DataObject) -> None:
    program = extended()
    key = data.draw(st.sampled_from(sorted(program.declared)))
    path = data.draw(st.sampled_from(sorted(program.declared[key].inputs)))
    facts = Facts(program.with_(key, path, data.draw(json_values)).resources())
    for rule in RULES:
        for urn, detail in details(rule, facts, {}):
            assert urn
            assert "could not be applied" not in detail, (rule.id, detail)


def test_the_engine_knows_every_rule_under_its_id() -> None:
    assert [policy.name for policy in policies()] == [rule.id for rule in RULES]
