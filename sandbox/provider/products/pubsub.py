"""Topics and subscriptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings, account_missing
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, lasts, matches, seconds_of
from sandbox.provider.products.storage import BUCKET
from sandbox.world import SUBSCRIPTION, TOPIC, World, short_name

_NAME: Final = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}", re.ASCII)
_NAME_RULE: Final = "3 to 255 letters, digits and -_.~+%, starting with a letter and not with `goog`"
_TOPIC: Final = re.compile(r"projects/[^/]+/topics/[^/]+")
_TOPIC_RULE: Final = "a full name, projects/PROJECT/topics/NAME"
_ENDPOINT: Final = re.compile(r"https://[^\s/]+(?:/\S*)?")
_RETENTION: Final = (600, 2_678_400)
"""Seconds: 10 minutes to 31 days."""
_IDLE_MIN: Final = 86_400
"""Seconds: shortest time after which an idle subscription may be removed."""
_FILE_SECONDS: Final = (60, 600)
_FILE_BYTES: Final = (1000, 10 * 1024**3)
_FILE_MESSAGES_MIN: Final = 1000
"""Files of a storage subscription: when they are closed, earliest and latest."""


def _named(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _topic_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from lasts(inputs, "messageRetentionDuration", *_RETENTION)


def _topic_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    return {"id": f"projects/{inputs['project']}/topics/{name}", "effectiveLabels": labels, "pulumiLabels": labels}


def _subscription_defaults(inputs: Inputs) -> dict[str, Any]:
    filled = {
        "messageRetentionDuration": "604800s",
        "enableExactlyOnceDelivery": False,
        "enableMessageOrdering": False,
        "retainAckedMessages": False,
        "expirationPolicy": {"ttl": "2678400s"},
        **inputs,
        "ackDeadlineSeconds": inputs.get("ackDeadlineSeconds") or 10,
    }
    if "retryPolicy" in inputs:
        filled["retryPolicy"] = {"minimumBackoff": "10s", "maximumBackoff": "600s", **inputs["retryPolicy"]}
    if "deadLetterPolicy" in inputs:
        attempts = at(inputs, "deadLetterPolicy.maxDeliveryAttempts") or 5
        filled["deadLetterPolicy"] = {**inputs["deadLetterPolicy"], "maxDeliveryAttempts": attempts}
    return filled


def _subscription_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from in_range(inputs, "ackDeadlineSeconds", 10, 600)
    yield from lasts(inputs, "messageRetentionDuration", *_RETENTION)
    yield from lasts(inputs, "retryPolicy.minimumBackoff", 0, 600)
    yield from lasts(inputs, "retryPolicy.maximumBackoff", 0, 600)
    if (seconds_of(at(inputs, "retryPolicy.minimumBackoff") or "0s") or 0) > (
        seconds_of(at(inputs, "retryPolicy.maximumBackoff") or "600s") or 0
    ):
        yield Failure("retryPolicy.minimumBackoff", "is longer than maximumBackoff")
    if at(inputs, "expirationPolicy.ttl"):
        yield from lasts(inputs, "expirationPolicy.ttl", _IDLE_MIN, float("inf"))
    if len(inputs.get("filter") or "") > 256:
        yield Failure("filter", "is longer than 256 characters")
    yield from _dead_letter_rules(inputs)
    yield from _push_rules(inputs)
    yield from _storage_rules(inputs)


def _dead_letter_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "deadLetterPolicy.deadLetterTopic", _TOPIC, _TOPIC_RULE)
    yield from in_range(inputs, "deadLetterPolicy.maxDeliveryAttempts", 5, 100)
    topic = at(inputs, "deadLetterPolicy.deadLetterTopic")
    if topic and short_name(topic) == short_name(inputs["topic"]):
        yield Failure("deadLetterPolicy.deadLetterTopic", f"{topic} is the source topic: dead letters would go round")


def _push_rules(inputs: Inputs) -> Iterator[Failure]:
    if not inputs.get("pushConfig"):
        return
    yield from matches(inputs, "pushConfig.pushEndpoint", _ENDPOINT, "an https address")
    if inputs.get("enableExactlyOnceDelivery"):
        yield Failure("enableExactlyOnceDelivery", "true is refused; push subscriptions do not have it")


def _storage_rules(inputs: Inputs) -> Iterator[Failure]:
    config = inputs.get("cloudStorageConfig")
    if not config:
        return
    if inputs.get("pushConfig") or inputs.get("bigqueryConfig"):
        yield Failure("cloudStorageConfig", "is refused beside pushConfig or bigqueryConfig; messages go one way")
    if config.get("avroConfig") is not None and config.get("textConfig") is not None:
        yield Failure("cloudStorageConfig.textConfig", "is refused beside avroConfig; files have one form")
    yield from lasts(inputs, "cloudStorageConfig.maxDuration", *_FILE_SECONDS)
    longest, ack = seconds_of(at(inputs, "cloudStorageConfig.maxDuration") or ""), at(inputs, "ackDeadlineSeconds")
    if longest is not None and ack is not None and longest > ack:
        yield Failure("cloudStorageConfig.maxDuration", f"{longest:g}s is longer than the ack deadline, {ack:g} s")
    yield from in_range(inputs, "cloudStorageConfig.maxBytes", *_FILE_BYTES)
    yield from in_range(inputs, "cloudStorageConfig.maxMessages", _FILE_MESSAGES_MIN, float("inf"))
    if (at(inputs, "cloudStorageConfig.filenameSuffix") or "").endswith("/"):
        yield Failure("cloudStorageConfig.filenameSuffix", "ends with a slash, and would name a folder")


def _subscription_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    for path in ("topic", "deadLetterPolicy.deadLetterTopic"):
        topic = at(inputs, path)
        if topic and world.find(TOPIC, topic) is None:
            yield Failure(path, f"topic {topic} does not exist")
    bucket = at(inputs, "cloudStorageConfig.bucket")
    if bucket and world.find(BUCKET, bucket) is None:
        yield Failure("cloudStorageConfig.bucket", f"bucket {bucket} does not exist")
    email = at(inputs, "pushConfig.oidcToken.serviceAccountEmail")
    if email:
        yield from account_missing(email, "pushConfig.oidcToken.serviceAccountEmail", world)


def _subscription_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    full = f"projects/{inputs['project']}/subscriptions/{name}"
    return {"id": full, "effectiveLabels": labels, "pulumiLabels": labels}


BEHAVIOURS: Final = {
    TOPIC: Behaviour(
        name=_named,
        auto_name="name",
        computed=_topic_computed,
        rules=_topic_rules,
        immutable=frozenset({"name", "project"}),
    ),
    SUBSCRIPTION: Behaviour(
        name=_named,
        auto_name="name",
        computed=_subscription_computed,
        defaults=_subscription_defaults,
        rules=_subscription_rules,
        missing=_subscription_missing,
        immutable=frozenset({"name", "project", "topic", "filter", "enableMessageOrdering"}),
    ),
}
