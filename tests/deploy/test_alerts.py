"""What a stack tells people, and that the words lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infra.alert_rule import GUIDE, AlertRule
from infra.alert_rules import alert_rules
from infra.sections.alerts import AlertsPlan
from runtime.contract.names import DEAD_LETTERED, KEYS_NOT_REFRESHED
from sandbox.engine.deployment import Deployment
from sandbox.provider.products.monitoring import ALERT_POLICY, CHANNEL
from sandbox.world import SERVICE, SUBSCRIPTION
from tests.support.policy_programs import of_registrations
from tests.support.stacks import loaded, realised, refused

ROOT = Path(__file__).parents[2]
PAGER = "projects/p-test/notificationChannels/1234567890"
WHO = {"emails": ["on-call@example.com", "second@example.com"], "channels": [PAGER]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("stack"), alerts=WHO, executor={})


def rules(**plan: Any) -> dict[str, AlertRule]:
    section = AlertsPlan.model_validate(plan)
    return {rule.name: rule for rule in alert_rules(loaded(alerts=plan), section)}


def test_a_stack_that_says_nothing_has_no_alerts_and_one_that_names_nobody_tells_the_console(tmp_path: Path) -> None:
    without, silent = realised(tmp_path / "without"), realised(tmp_path / "silent", alerts={})
    assert without.world.of_type(ALERT_POLICY) == []
    assert silent.world.of_type(CHANNEL) == []
    assert {bool(policy.inputs.get("notificationChannels")) for policy in silent.world.of_type(ALERT_POLICY)} == {False}


def test_every_policy_tells_every_address_and_every_channel(stack: Deployment) -> None:
    own = {channel.outputs["name"] for channel in stack.world.of_type(CHANNEL)}
    addresses = {channel.inputs["labels"]["email_address"] for channel in stack.world.of_type(CHANNEL)}

    assert addresses == set(WHO["emails"])
    told = {frozenset(policy.inputs["notificationChannels"]) for policy in stack.world.of_type(ALERT_POLICY)}
    assert told == {frozenset(own | {PAGER})}


def test_policies_watch_what_the_stack_declares_and_leave_nothing_out(stack: Deployment) -> None:
    text = " ".join(str(policy.inputs["conditions"]) for policy in stack.world.of_type(ALERT_POLICY))
    watched = set(re.findall(r'subscription_id="([^"]+)"', text))
    pushed = {one.name for one in stack.world.of_type(SUBSCRIPTION) if one.inputs.get("pushConfig")}
    counted = set(re.findall(r'resource\.labels\.service_name="([^"]+)"', text))

    assert watched == pushed
    assert counted == {service.name for service in stack.world.of_type(SERVICE)}


def test_a_query_is_taken_before_its_metric_is_there(stack: Deployment) -> None:
    """A fresh project has none until its first message, and Google would refuse the policy."""
    policies = stack.world.of_type(ALERT_POLICY)
    conditions = [condition for policy in policies for condition in policy.inputs["conditions"]]
    queries = [found for one in conditions if (found := one.get("conditionPrometheusQueryLanguage"))]
    assert [query["disableMetricValidation"] for query in queries] == [True] * len(queries) != []


def test_log_lines_are_those_that_every_service_writes(stack: Deployment) -> None:
    lines = [
        condition["conditionMatchedLog"]["filter"]
        for policy in stack.world.of_type(ALERT_POLICY)
        for condition in policy.inputs["conditions"]
        if "conditionMatchedLog" in condition
    ]
    assert {re.findall(r'jsonPayload\.event="(\w+)"', line)[0] for line in lines} == {DEAD_LETTERED, KEYS_NOT_REFRESHED}
    assert all(f'"{service.name}"' in line for service in stack.world.of_type(SERVICE) for line in lines)


@pytest.mark.parametrize("name", rules())
def test_an_alert_says_what_it_means_and_names_a_section_that_exists(name: str) -> None:
    rule = rules()[name]
    headings = re.findall(r"^## (.+)$", (ROOT / GUIDE).read_text(), re.MULTILINE)

    assert rule.section in headings
    assert GUIDE in rule.text
    assert f"“{rule.section}”" in rule.text
    assert rule.means.endswith(".")
    assert rule.do.endswith(".")


def test_every_section_of_the_guide_has_an_alert() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / GUIDE).read_text(), re.MULTILINE)
    assert set(headings) == {rule.section for rule in rules().values()}


def test_a_thresholds_default_follows_the_timeouts_and_a_given_one_stands() -> None:
    slow = loaded(worker={"request_timeout_seconds": 1200, "run_timeout_seconds": 1000, "maximum_backoff_seconds": 60})
    derived = {rule.name: rule for rule in alert_rules(slow, AlertsPlan())}

    assert "above=2460" in repr(derived["execution-messages-old"].condition)
    assert "[1560s]" in repr(derived["execution-stalled"].condition)
    assert "above=99" in repr(rules(message_age_seconds=99)["execution-messages-old"].condition)
    assert "age>=3000" in repr(rules(key_age_seconds=3000)["push-keys"].condition)
    assert "above=7" in repr(rules(api_errors=7)["api-errors"].condition)


def test_an_address_that_goes_takes_its_channel_along_and_renames_no_other(tmp_path: Path) -> None:
    realised(tmp_path, alerts={**WHO, "emails": [*WHO["emails"], WHO["emails"][0]]})
    fewer = realised(tmp_path, alerts={**WHO, "emails": ["second@example.com"]})

    assert [urn.rpartition("::")[2].startswith("alerts-email-") for urn in fewer.deleted] == [True]
    assert (fewer.created, fewer.replaced) == ((), ())


def test_the_policy_pack_has_nothing_to_say(stack: Deployment) -> None:
    assert of_registrations(stack.registrations).broken() == set()


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        ({"emails": ["nobody"]}, "holdfast:alerts.emails"),
        ({"channels": ["1234"]}, "holdfast:alerts.channels"),
        ({"key_age_seconds": 1800}, "holdfast:alerts.key_age_seconds"),
        ({"mails": []}, "holdfast:alerts.mails"),
    ],
)
def test_what_cannot_be_told_is_refused(plan: dict[str, Any], key: str) -> None:
    (line,) = refused(alerts=plan)
    assert f" {key} is" in line
