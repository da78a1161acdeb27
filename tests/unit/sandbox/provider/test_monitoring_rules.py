"""What Cloud Monitoring refuses although its SDK does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.provider.products.monitoring import ALERT_POLICY, CHANNEL
from tests.support.provider import changed, create, failures, new_world

THRESHOLD = {
    "filter": 'metric.type="run.googleapis.com/request_count" AND resource.type="cloud_run_revision"',
    "comparison": "COMPARISON_GT",
    "duration": "300s",
    "thresholdValue": 5,
    "aggregations": [{"alignmentPeriod": "60s"}],
}
POLICY: dict[str, Any] = {
    "displayName": "errors",
    "combiner": "OR",
    "conditions": [{"displayName": "errors", "conditionThreshold": THRESHOLD}],
    "alertStrategy": {"autoClose": "86400s"},
    "documentation": {"content": "What to do.", "mimeType": "text/markdown"},
}
LINE = {"displayName": "line", "conditionMatchedLog": {"filter": 'jsonPayload.event="x"'}}
QUERY = {"displayName": "query", "conditionPrometheusQueryLanguage": {"query": "up == 0", "duration": "90s"}}
CONDITION = "conditions.0.conditionThreshold"


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("combiner", "ALL", "combiner: 'ALL' is refused"),
        ("severity", "HIGH", "severity: 'HIGH' is refused"),
        ("conditions", [], "has 0 members; a policy has 1 to 6"),
        ("conditions.0.conditionAbsent", {"duration": "120s"}, "exactly one of conditionThreshold"),
        (f"{CONDITION}.duration", "90s", "conditions[0].conditionThreshold.duration: '90s' is refused"),
        (f"{CONDITION}.comparison", "COMPARISON_EQ", "conditionThreshold.comparison: 'COMPARISON_EQ' is refused"),
        (f"{CONDITION}.filter", 'resource.type="x"', "must name a metric.type and a resource.type"),
        (f"{CONDITION}.aggregations.0.alignmentPeriod", "30s", "it must be seconds with an s, 60s to 93600s"),
        ("conditions", [QUERY], "conditionPrometheusQueryLanguage.duration: '90s' is refused"),
        ("conditions", [LINE], "notificationRateLimit: is required where a condition matches log lines"),
        ("alertStrategy.notificationRateLimit", {"period": "3600s"}, "is for conditions on log lines only"),
        ("alertStrategy.autoClose", "600s", "alertStrategy.autoClose: '600s' is refused"),
        ("documentation.content", "x" * 8193, "documentation.content: is longer than 8192 characters"),
        ("documentation.subject", "x" * 256, "documentation.subject: is longer than 255 bytes"),
        ("notificationChannels", ["on-call"], "notificationChannels[0]: 'on-call' is no channel's full name"),
    ],
)
def test_a_policy_that_cannot_be(path: str, value: Any, failure: str) -> None:
    (found,) = failures(ALERT_POLICY, changed(POLICY, path, value))
    assert failure in found


def test_a_condition_on_log_lines_is_the_only_one_of_its_policy() -> None:
    strategy = {"notificationRateLimit": {"period": "300s"}}
    alone = {**POLICY, "conditions": [LINE], "alertStrategy": strategy}
    assert failures(ALERT_POLICY, alone) == []
    (found,) = failures(ALERT_POLICY, {**alone, "conditions": [LINE, POLICY["conditions"][0]]})
    assert "is a policy's only one" in found


@pytest.mark.parametrize("labels", [{}, {"email_address": "nobody"}])
def test_a_channel_for_letters_needs_an_address(labels: dict[str, str]) -> None:
    (found,) = failures(CHANNEL, {"type": "email", "labels": labels})
    assert found.startswith("labels.email_address")


def test_the_platform_numbers_policies_and_channels(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    channel = create(world, CHANNEL, {"type": "email", "labels": {"email_address": "a@example.com"}})
    policy = create(world, ALERT_POLICY, {**POLICY, "notificationChannels": [channel.outputs["name"]]})

    assert channel.outputs["name"] == channel.outputs["id"] == f"projects/p-test/notificationChannels/{channel.name}"
    assert policy.name.isdigit()
