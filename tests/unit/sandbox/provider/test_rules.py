"""What Google refuses although its SDK does not."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.world import (
    ACCOUNT,
    DATABASE,
    DNS_RECORD,
    DNS_ZONE,
    INDEX,
    NETWORK,
    SCHEDULER_JOB,
    SECRET,
    SECRET_VERSION,
    SERVICE,
    SUBNET,
    SUBSCRIPTION,
    TOPIC,
)
from tests.support.provider import PROJECT, SERVICE_INPUTS, SUBSCRIPTION_INPUTS, changed, checked, failures

CONTAINER = "template.containers.0"
PROBE = {"httpGet": {"path": "/health/ready"}}
JOB = {"name": "tick", "schedule": "* * * * *", "httpTarget": {"uri": "https://api.example/internal/tick"}}


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("ackDeadlineSeconds", 601, "ackDeadlineSeconds: 601 is refused; it must be 10 to 600"),
        ("ackDeadlineSeconds", 9, "ackDeadlineSeconds: 9 is refused; it must be 10 to 600"),
        ("messageRetentionDuration", "599s", "messageRetentionDuration: '599s' is refused"),
        ("messageRetentionDuration", "10m", "it must be seconds with an s, 600s to 2.6784e+06s"),
        ("retryPolicy.maximumBackoff", "601s", "retryPolicy.maximumBackoff: '601s' is refused"),
        ("retryPolicy.maximumBackoff", "5s", "retryPolicy.minimumBackoff: is longer than maximumBackoff"),
        ("deadLetterPolicy.maxDeliveryAttempts", 4, "deadLetterPolicy.maxDeliveryAttempts: 4 is refused"),
        ("deadLetterPolicy.maxDeliveryAttempts", 101, "it must be 5 to 100"),
        ("deadLetterPolicy.deadLetterTopic", "dead", "must be a full name, projects/PROJECT/topics/NAME"),
        ("deadLetterPolicy.deadLetterTopic", "_deleted-topic_", "must be a full name, projects/PROJECT/topics/NAME"),
        (
            "deadLetterPolicy.deadLetterTopic",
            f"projects/{PROJECT}/topics/jobs",
            "is the source topic: dead letters would go round",
        ),
        ("expirationPolicy", {"ttl": "3600s"}, "expirationPolicy.ttl: '3600s' is refused"),
        ("pushConfig.pushEndpoint", "http://worker.example", "must be an https address"),
        ("enableExactlyOnceDelivery", True, "push subscriptions do not have it"),
        ("name", "goog-jobs", "'goog-jobs' is refused"),
        ("name", "ab", "'ab' is refused"),
        ("filter", "x" * 257, "filter: is longer than 256 characters"),
    ],
)
def test_a_subscription_that_pubsub_refuses(path: str, value: Any, failure: str) -> None:
    """BR-45, BR-46 and BR-62 among them."""
    (found,) = failures(SUBSCRIPTION, changed(SUBSCRIPTION_INPUTS, path, value))
    assert failure in found


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("name", "Worker", "name: 'Worker' is refused"),
        ("name", "a" * 50, "it must be 1 to 49 lower case letters"),
        ("ingress", "ALL", "ingress: 'ALL' is refused"),
        ("template.timeout", "3601s", "template.timeout: '3601s' is refused"),
        ("template.timeout", "60", "template.timeout: '60' is refused"),
        ("template.maxInstanceRequestConcurrency", 1001, "it must be 1 to 1000"),
        ("template.scaling", {"minInstanceCount": 3, "maxInstanceCount": 2}, "minInstanceCount: 3 is refused"),
        ("template.containers", [], "template.containers: is empty"),
        (
            f"{CONTAINER}.image",
            "ghcr.io/acme/runtime:1",
            "ghcr.io is none of gcr.io, REGION-docker.pkg.dev",
        ),
        (f"{CONTAINER}.ports", {"containerPort": 0}, "containerPort: 0 is refused"),
        (f"{CONTAINER}.envs.0.name", "PORT", "PORT is reserved by the platform; remove it"),
        (f"{CONTAINER}.envs.0.name", "K_SERVICE", "K_SERVICE is reserved by the platform; remove it"),
        (f"{CONTAINER}.envs.0.name", "K_REVISION", "K_REVISION is reserved by the platform; remove it"),
        (f"{CONTAINER}.envs.0.name", "K_CONFIGURATION", "K_CONFIGURATION is reserved by the platform; remove it"),
        (f"{CONTAINER}.envs.0.name", "1A", "'1A' is not the name of a variable"),
        (f"{CONTAINER}.envs", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "A is given twice"),
        (
            f"{CONTAINER}.envs.0.valueSource",
            {"secretKeyRef": {"secret": "s"}},
            "LOG_LEVEL has both a value and a source",
        ),
        (f"{CONTAINER}.startupProbe", PROBE | {"periodSeconds": 241}, "startupProbe.periodSeconds: 241 is refused"),
        (f"{CONTAINER}.startupProbe", PROBE | {"timeoutSeconds": 11}, "startupProbe.timeoutSeconds: 11 is refused"),
        (f"{CONTAINER}.startupProbe", PROBE | {"failureThreshold": 25}, "x periodSeconds is 250 s"),
        (f"{CONTAINER}.livenessProbe", {"periodSeconds": 10}, "exactly one of httpGet, tcpSocket and grpc is needed"),
        (f"{CONTAINER}.livenessProbe", PROBE | {"initialDelaySeconds": 3601}, "initialDelaySeconds: 3601 is refused"),
    ],
)
def test_a_service_that_cloud_run_refuses(path: str, value: Any, failure: str) -> None:
    """BR-118 among them."""
    found = failures(SERVICE, changed(SERVICE_INPUTS, path, value))
    assert any(failure in one for one in found), found


@pytest.mark.parametrize(
    ("type_", "inputs", "failure"),
    [
        (TOPIC, {"name": "goog"}, "name: 'goog' is refused"),
        (TOPIC, {"name": "jobs", "messageRetentionDuration": "31d"}, "messageRetentionDuration: '31d' is refused"),
        (ACCOUNT, {"accountId": "short"}, "accountId: 'short' is refused; it must be 6 to 30"),
        (ACCOUNT, {"accountId": "a" * 31}, "it must be 6 to 30"),
        (ACCOUNT, {"accountId": "Account-id"}, "it must be 6 to 30 lower case letters"),
        (
            DATABASE,
            {"name": "db", "locationId": "europe-west1", "type": "FIRESTORE_NATIVE"},
            "name: 'db' is refused; it must be (default), or 4 to 63",
        ),
        (DATABASE, {"name": "state", "locationId": "europe-west1", "type": "NATIVE"}, "type: 'NATIVE' is refused"),
        (INDEX, {"collection": "runs", "fields": [{"fieldPath": "a", "order": "ASCENDING"}]}, "fields: has one field"),
        (
            INDEX,
            {"collection": "runs", "fields": [{"fieldPath": "a", "order": "UP"}, {"fieldPath": "b"}]},
            "fields[0].order: 'UP' is refused",
        ),
        (SECRET, {"secretId": "a/b", "replication": {"auto": {}}}, "secretId: 'a/b' is refused"),
        (SECRET, {"secretId": "key", "replication": {}}, "exactly one of auto and userManaged is needed"),
        (SECRET_VERSION, {"secret": "key"}, "secretData: is missing or empty"),
        (SECRET_VERSION, {"secret": "key", "secretData": "x" * 65537}, "secretData: is larger than 65536 bytes"),
        (SCHEDULER_JOB, JOB | {"schedule": "every minute"}, "schedule: 'every minute' is refused"),
        (SCHEDULER_JOB, changed(JOB, "schedule", ...), "schedule: is missing"),
        (SCHEDULER_JOB, JOB | {"attemptDeadline": "1801s"}, "attemptDeadline: '1801s' is refused"),
        (SCHEDULER_JOB, JOB | {"pubsubTarget": {"topicName": "t"}}, "exactly one of httpTarget, pubsubTarget"),
        (SCHEDULER_JOB, changed(JOB, "httpTarget.uri", "api.example"), "must be an http or https address"),
        (
            "gcp:projects/iAMMember:IAMMember",
            {
                "project": PROJECT,
                "role": "owner",
                "member": f"serviceAccount:push-id@{PROJECT}.iam.gserviceaccount.com",
            },
            "role: 'owner' is refused",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"project": PROJECT, "role": "roles/viewer", "member": "push-id@p-test.iam.gserviceaccount.com"},
            "must be a member, like serviceAccount:EMAIL",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {
                "project": PROJECT,
                "role": "roles/viewer",
                "member": "serviceAccount:Push@p-test.iam.gserviceaccount.com",
            },
            "the platform stores e-mails in lower case",
        ),
    ],
)
def test_what_the_other_products_refuse(type_: str, inputs: dict[str, Any], failure: str) -> None:
    """BR-129 for the member's case."""
    found = failures(type_, inputs)
    assert any(failure in one for one in found), found


def test_a_subscription_gets_pubsubs_defaults() -> None:
    """BR-45: ten seconds where nothing is said."""
    filled = checked(SUBSCRIPTION, {"name": "jobs-push", "topic": "jobs", "deadLetterPolicy": {}, "retryPolicy": {}})

    assert filled["ackDeadlineSeconds"] == 10
    assert filled["messageRetentionDuration"] == "604800s"
    assert filled["expirationPolicy"] == {"ttl": "2678400s"}
    assert filled["retryPolicy"] == {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    assert filled["deadLetterPolicy"] == {"maxDeliveryAttempts": 5}
    assert filled["project"] == PROJECT


def test_a_service_gets_cloud_runs_defaults() -> None:
    """BR-119: protected where nothing is said."""
    filled = checked(SERVICE, changed(SERVICE_INPUTS, "template.timeout", ...))
    (container,) = filled["template"]["containers"]

    assert filled["deletionProtection"] is True
    assert filled["ingress"] == "INGRESS_TRAFFIC_ALL"
    assert filled["invokerIamDisabled"] is False
    assert filled["template"]["timeout"] == "300s"
    assert filled["template"]["maxInstanceRequestConcurrency"] == 80
    assert filled["template"]["scaling"] == {"minInstanceCount": 0, "maxInstanceCount": 100}
    assert container["resources"]["cpuIdle"] is True
    assert container["ports"] == {"containerPort": 8080, "name": "http1"}
    assert container["startupProbe"]["tcpSocket"] == {"port": 8080}


def test_resources_without_a_word_on_the_cpu_keep_it() -> None:
    filled = checked(SERVICE, changed(SERVICE_INPUTS, f"{CONTAINER}.resources", {"limits": {"cpu": "500m"}}))

    assert filled["template"]["containers"][0]["resources"]["cpuIdle"] is False
    assert filled["template"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert filled["template"]["maxInstanceRequestConcurrency"] == 1, "less than a CPU serves one request at a time"


def test_checking_twice_changes_nothing() -> None:
    once = checked(SERVICE, SERVICE_INPUTS)
    assert checked(SERVICE, once) == once
    once = checked(SUBSCRIPTION, SUBSCRIPTION_INPUTS)
    assert checked(SUBSCRIPTION, once) == once


ZONE = {"name": "z", "dnsName": "run.app.", "visibility": "private"}
RECORD = {"name": "*.run.app.", "type": "A", "managedZone": "z", "ttl": 300, "rrdatas": ["199.36.153.8"]}


@pytest.mark.parametrize(
    ("type_", "inputs", "failure"),
    [
        (NETWORK, {"name": "Net"}, "name: 'Net' is refused"),
        (SUBNET, {"network": "n", "ipCidrRange": "10.0.0.1/20"}, "it must be the first address of a range"),
        (SUBNET, {"network": "n", "ipCidrRange": "10.0.0.0/30"}, "its length must be 8 to 29"),
        (DNS_ZONE, {**ZONE, "dnsName": "run.app"}, "it must be a domain with a dot at its end"),
        (DNS_ZONE, {**ZONE, "visibility": "hidden"}, "it must be one of public, private"),
        (DNS_ZONE, {**ZONE, "visibility": None, "privateVisibilityConfig": {"networks": []}}, "a private zone only"),
        (DNS_RECORD, {**RECORD, "name": "run.app"}, "it must be a domain with a dot at its end"),
        (DNS_RECORD, {**RECORD, "rrdatas": []}, "rrdatas: is empty"),
        (DNS_RECORD, {**RECORD, "rrdatas": ["run.app."]}, "it must be an IPv4 address"),
        (DNS_RECORD, {**RECORD, "type": "CNAME", "rrdatas": ["a.", "b."]}, "a CNAME has one"),
        (DNS_RECORD, {**RECORD, "ttl": -1}, "ttl: -1 is refused"),
    ],
)
def test_a_network_or_a_zone_that_google_refuses(type_: str, inputs: dict[str, Any], failure: str) -> None:
    (found,) = failures(type_, {name: value for name, value in inputs.items() if value is not None})
    assert failure in found
