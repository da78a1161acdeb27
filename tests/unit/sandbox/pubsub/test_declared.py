"""Topics and subscriptions are read from the declared world, with Pub/Sub's defaults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.contract.errors import HoldfastError
from sandbox.pubsub.backoff import RetryPolicy
from sandbox.pubsub.declared import DeadLetterPolicy, Declarations, PushConfig, read_subscription
from tests.support.worlds import PUSH, WORKER_URL, declare, empty_world, push_config, subscription, topic


def test_a_subscription_that_names_little_has_pubsubs_defaults() -> None:
    read = read_subscription("p-test", "s", {"topic": "t"})
    assert (read.name, read.topic) == ("projects/p-test/subscriptions/s", "projects/p-test/topics/t")
    assert read.ack_deadline == timedelta(seconds=10)
    assert read.retention == timedelta(days=7)
    assert (read.push, read.retry, read.dead_letter) == (None, None, None)
    assert not read.ordered
    assert not read.exported
    assert read.matches({})


def test_a_subscription_keeps_all_that_it_names() -> None:
    read = read_subscription(
        "p-test",
        "projects/p-test/subscriptions/s",
        {
            "topic": "projects/other/topics/t",
            "ackDeadlineSeconds": 600.0,
            "messageRetentionDuration": "86400s",
            "pushConfig": push_config(),
            "retryPolicy": {"minimumBackoff": "1.5s"},
            "deadLetterPolicy": {"deadLetterTopic": "projects/p-test/topics/dead", "maxDeliveryAttempts": 20.0},
            "enableMessageOrdering": True,
            "filter": 'attributes.x = "y"',
            "retainAckedMessages": True,
            "labels": {"a": "b"},
        },
    )
    assert (read.name, read.topic) == ("projects/p-test/subscriptions/s", "projects/other/topics/t")
    assert (read.ack_deadline, read.retention) == (timedelta(seconds=600), timedelta(days=1))
    assert read.push == PushConfig(endpoint=WORKER_URL, account=PUSH, audience=WORKER_URL)
    assert read.retry == RetryPolicy(minimum=timedelta(seconds=1.5), maximum=timedelta(seconds=600))
    assert read.dead_letter == DeadLetterPolicy(topic="projects/p-test/topics/dead", max_attempts=20)
    assert read.ordered
    assert read.retain_acked
    assert not read.matches({})


def test_the_endpoint_is_the_audience_where_none_is_named() -> None:
    push = {"pushEndpoint": WORKER_URL, "oidcToken": {"serviceAccountEmail": PUSH}}
    read = read_subscription("p-test", "s", {"topic": "t", "pushConfig": push})
    assert read.push is not None
    assert read.push.audience == WORKER_URL


def test_an_empty_push_config_means_pull() -> None:
    assert read_subscription("p-test", "s", {"topic": "t", "pushConfig": {"pushEndpoint": ""}}).push is None


@pytest.mark.parametrize("config", [{"cloudStorageConfig": {"bucket": "b"}}, {"bigqueryConfig": {"table": "t"}}])
def test_a_subscription_that_exports_is_known_as_such(config: dict[str, Any]) -> None:
    assert read_subscription("p-test", "s", {"topic": "t", **config}).exported


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ({"messageRetentionDuration": "7d"}, "messageRetentionDuration is '7d'"),
        ({"retryPolicy": {"minimumBackoff": "10"}}, "minimumBackoff is '10'"),
        ({"pushConfig": {"pushEndpoint": WORKER_URL, "noWrapper": {"writeMetadata": True}}}, "noWrapper"),
        ({"filter": "nonsense"}, "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_by_field(inputs: dict[str, Any], names: str) -> None:
    with pytest.raises(HoldfastError, match=names):
        read_subscription("p-test", "s", {"topic": "t", **inputs})


def test_the_world_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    world = empty_world(tmp_path)
    declared = Declarations(world)
    assert declared.refresh()
    assert not declared.refresh()
    name = subscription(world, "s", topic(world, "t"))
    assert declared.refresh()
    assert list(declared.subscriptions) == [name]
    assert list(declared.topics) == ["projects/p-test/topics/t"]


def test_an_unreadable_subscription_is_logged_and_remembered_and_the_others_stay(tmp_path: Path) -> None:
    world = empty_world(tmp_path)
    good = subscription(world, "good", "t")
    declare(world, "gcp:pubsub/subscription:Subscription", "bad", topic="t", filter="nonsense")
    declared = Declarations(world)
    with capture_logs() as logs:
        declared.refresh()
    assert list(declared.subscriptions) == [good]
    assert list(declared.unreadable) == ["projects/p-test/subscriptions/bad"]
    assert [entry["event"] for entry in logs] == ["subscription_unreadable"]
