"""Each rule holds on what the project renders, and one change breaks it and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policies.rules import RULES
from tests.support.policy_programs import (
    AGENT,
    Change,
    Declared,
    Program,
    address,
    extended,
    grant,
    long_requests,
    rendered,
)

WORKER, API, EXECUTOR = "Service/execution-service", "Service/api-service", "Service/executor-service"
PUSH, LETTERS, JOB = "Subscription/execution-push", "Subscription/execution-dead-letters", "Job/tick-job"
CONTAINER = "template.containers.0"
ENDPOINT = f"{address('holdfast-execution')}"
SIGNED = "https://storage.googleapis.com/b/o?X-Goog-Signature=00"

ONE_CHANGE: list[tuple[str, Change]] = [
    ("T01", (WORKER, "env.GCP_QUEUE_REQUEST_TIMEOUT_SECS", "599")),
    ("T01", (API, "env.API_REQUEST_TIMEOUT_SECS", "3599")),
    ("T02", (WORKER, "env.GCP_QUEUE_PROCESS_TIMEOUT_SECS", "571")),
    ("T03", (WORKER, "env.EXECUTOR_TIMEOUT_SECS", "541")),
    ("T04", (EXECUTOR, "env.EXECUTOR_TIMEOUT_SECS", "3571")),
    ("T04", (EXECUTOR, "env.EXECUTOR_TIMEOUT_SECS", "0")),
    ("T04", (EXECUTOR, "template.timeout", "3569s")),
    ("T05", (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "599")),
    ("T05", (PUSH, "ackDeadlineSeconds", 601.0)),
    ("T07", (WORKER, "env.GCP_QUEUE_CLAIM_HEARTBEAT_SECS", "61")),
    ("T07", (API, "env.API_RUN_LEASE_SECS", "151")),
    ("T08", (WORKER, "env.GCP_QUEUE_CLAIM_RETENTION_SECS", "86399")),
    ("T09", (WORKER, "env.GCP_QUEUE_BROKER_MAX_ATTEMPTS", "19")),
    ("T09", (WORKER, "env.GCP_QUEUE_BROKER_MAX_ATTEMPTS", None)),
    ("T09", (WORKER, "env.GCP_QUEUE_MAX_DELIVERY_ATTEMPTS", "11")),
    ("T10", (API, "env.API_MAX_QUEUE_AGE_SECS", "23999")),
    ("T10", (PUSH, "messageRetentionDuration", "23999s")),
    ("T11", (PUSH, "pushConfig.pushEndpoint", f"{ENDPOINT}/push")),
    ("T11", (PUSH, "pushConfig.pushEndpoint", ENDPOINT.replace("123456789012", "999999999999"))),
    ("T11", (PUSH, "pushConfig.oidcToken.audience", "https://other.example")),
    ("T11", (WORKER, "env.PUBSUB_PUSH_AUDIENCE", "https://other.example")),
    ("T13", (WORKER, f"{CONTAINER}.startupProbe.failureThreshold", 241.0)),
    ("T13", (WORKER, f"{CONTAINER}.startupProbe.initialDelaySeconds", 211.0)),
    ("T14", (JOB, "attemptDeadline", "3601s")),
    ("T15", (API, "env.API_JOB_TOKEN_LIFE_SECS", "87299")),
    ("T16", (JOB, "httpTarget.body", "aHR0cHM6Ly9zLmV4YW1wbGUvbz9YLUdvb2ctU2lnbmF0dXJlPTAw")),
    ("T16", ("Notification/objects", "customAttributes.url", SIGNED)),
    ("D02", (PUSH, "deadLetterPolicy.deadLetterTopic", "holdfast-execution-dead-letters")),
    ("D07", (PUSH, "expirationPolicy", None)),
    ("D07", (LETTERS, "expirationPolicy.ttl", "2678400s")),
    ("D09", (PUSH, "enableExactlyOnceDelivery", True)),
    ("D11", (PUSH, "filter", "attributes.kind = 'a'")),
    ("I01", (EXECUTOR, "template.serviceAccount", "123456789012-compute@developer.gserviceaccount.com")),
    ("I01", (EXECUTOR, "template.serviceAccount", "holdfast-api@p-test.iam.gserviceaccount.com")),
    ("I05", (WORKER, "env.PUBSUB_PUSH_AUTH", "in_process")),
    ("I06", (EXECUTOR, "invokerIamDisabled", True)),
    ("I09", (JOB, "httpTarget.oidcToken", None)),
    ("I14", ("IAMMember/api-uses-state", "member", "serviceAccount:Holdfast-Api@p-test.iam.gserviceaccount.com")),
    ("X01", (EXECUTOR, "ingress", "INGRESS_TRAFFIC_ALL")),
    ("X01", (WORKER, "ingress", None)),
    ("X02", (WORKER, "ingress", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER")),
    ("X04", (API, "template.vpcAccess", None)),
    ("X04", ("ManagedZone/network-platform", "dnsName", "example.com.")),
    ("X08", (WORKER, "defaultUriDisabled", True)),
    ("R01", (WORKER, f"{CONTAINER}.image", "europe-west1-docker.pkg.dev/p/r/i:latest")),
    ("R02", (EXECUTOR, f"{CONTAINER}.resources.cpuIdle", True)),
    ("R03", (WORKER, f"{CONTAINER}.startupProbe", None)),
    ("R03", (WORKER, f"{CONTAINER}.startupProbe.httpGet.path", "/")),
    ("R04", (API, f"{CONTAINER}.livenessProbe", None)),
    ("R04", (API, f"{CONTAINER}.livenessProbe.httpGet.path", "/health/ready")),
    ("R05", (EXECUTOR, f"{CONTAINER}.readinessProbe.httpGet.path", "/health/live")),
    ("R06", (WORKER, "template.scaling.maxInstanceCount", None)),
    ("R06", (WORKER, "template.scaling.maxInstanceCount", 101.0)),
    ("R06", (WORKER, "template.scaling.minInstanceCount", 11.0)),
    ("R07", (WORKER, "template.maxInstanceRequestConcurrency", None)),
    ("R08", (WORKER, f"{CONTAINER}.resources.limits.memory", None)),
    ("R09", (WORKER, "env.PORT", "8080")),
    ("R09", (API, "env.K_SERVICE", "x")),
    ("R09", (EXECUTOR, "env.METRICS_PORT", "9090")),
    ("R10", (WORKER, "env.FIRESTORE_EMULATOR_HOST", "")),
    ("R10", (EXECUTOR, "env.https_proxy", "")),
    ("R10", (API, "env.GOOGLE_APPLICATION_CREDENTIALS", "/x")),
    ("R10", (WORKER, "env.CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB", "x")),
    ("R11", (API, "env.BACKEND_KEY", "plain")),
    ("R11", (WORKER, "env.SHOP", "-----BEGIN EC PRIVATE KEY-----")),
    ("R11", (WORKER, "env.SHOP_TOKEN", "x")),
    ("R12", (API, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s"}}})),
    ("R13", (API, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "latest"}}})),
    ("R14", (WORKER, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "7"}}})),
    ("R15", (WORKER, "env.LIMIT", 600.0)),
    ("R15", (WORKER, "env.GCP_REQUIRE_OTEL", "True")),
    ("R16", (WORKER, "description", "Calling __str__ on an Output[T] is not supported.")),
    ("R17", (WORKER, f"{CONTAINER}.ports.name", "h2c")),
    ("R17", (API, f"{CONTAINER}.ports.name", "h2c")),
    ("S01", (WORKER, "deletionProtection", None)),
    ("S01", ("Database/state-database", "deleteProtectionState", None)),
    ("S03", ("Field/state-ttl-pubsub-claims", "ttlConfig", None)),
    ("S03", ("Field/state-ttl-runs", "database", "another")),
    ("S04", ("Database/state-database", "type", "DATASTORE_MODE")),
    ("S05", ("Database/state-database", "deletionPolicy", None)),
    ("S06", ("Notification/objects", "payloadFormat", "NONE")),
    ("S07", ("Notification/objects", "objectNamePrefix", None)),
    ("S09", ("DatabaseInstance/usage", "settings.databaseFlags", None)),
    ("S10", ("DatabaseInstance/usage", "settings.ipConfiguration.ipv4Enabled", True)),
    ("S10", ("DatabaseInstance/usage", "settings.ipConfiguration", None)),
    ("S07", ("Notification/objects", "objectNamePrefix", "")),
    ("S11", ("Bucket/content", "uniformBucketLevelAccess", None)),
    ("S11", ("Bucket/content", "publicAccessPrevention", "inherited")),
    ("L01", ("Topic/objects", "labels.part", 1.0)),
    ("L01", ("Topic/objects", "labels.part", "X")),
    ("L02", ("Topic/objects", "labels", None)),
    ("L03", ("Subscription/sink", "name", None)),
    ("L04", (EXECUTOR, "name", "Executor")),
    ("L05", (EXECUTOR, "location", None)),
    ("L06", (JOB, "region", "us-central1")),
    ("L06", ("Topic/objects", "messageStoragePolicy.allowedPersistenceRegions", ["us-central1"])),
]  # fmt: skip
"""Rule, and the change that breaks it alone."""

ALSO = {"L04": {"X04"}, "L05": {"X04"}}
"""Rules that a change must not break with it, but that lose what they were asked about."""


def test_what_the_project_renders_breaks_no_rule() -> None:
    assert rendered().broken() == set()
    assert long_requests().broken() == set()


def test_programs_with_an_executor_and_storage_break_no_rule() -> None:
    assert extended().broken() == set()


@pytest.mark.parametrize(
    ("rule", "change"), ONE_CHANGE, ids=lambda value: value if isinstance(value, str) else value[1]
)
def test_one_change_breaks_one_rule(rule: str, change: Change) -> None:
    """BR-15, BR-31, BR-45, BR-46, BR-50, BR-55, BR-56, BR-62, BR-118, BR-119, BR-121, BR-122, BR-126, BR-128, BR-131,
    BR-134, BR-135, BR-136, BR-138"""
    assert extended().with_(*change).broken() - ALSO.get(rule, set()) == {rule}


ONE_LESS: list[tuple[set[str], str]] = [
    ({"D04"}, "TopicIAMMember/execution-agent-dead-letters"),
    ({"D05"}, "SubscriptionIAMMember/execution-agent-forwards"),
    ({"D06"}, "BucketIAMMember/sink-creates"),
    ({"D06"}, "BucketIAMMember/sink-reads"),
    ({"I03"}, "ServiceIamMember/execution-push-invokes"),
    ({"I07"}, "IAMMember/execution-agent-signs"),
    ({"S03"}, "Field/state-ttl-pubsub-claims"),
    ({"S08"}, "TopicIAMMember/storage-publishes"),
    ({"X04"}, "ManagedZone/network-platform"),
]
"""Rules, and the resource that they need."""


@pytest.mark.parametrize(("rules", "missing"), ONE_LESS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_resource_that_is_missing_breaks_the_rule_that_needs_it(rules: set[str], missing: str) -> None:
    """BR-55: nothing is forwarded without both grants, and nothing pushed without the other two."""
    assert extended().without(missing).broken() == rules


def test_a_grant_to_the_agent_of_a_project_id_is_no_grant_to_the_agent() -> None:
    """BR-55, BR-129"""
    wrong = "serviceAccount:service-p-test@gcp-sa-pubsub.iam.gserviceaccount.com"
    broken = extended().with_("TopicIAMMember/execution-agent-dead-letters", "member", wrong).broken()
    assert broken == {"D04", "I14"}


ACCOUNT = "serviceAccount:holdfast-api@p-test.iam.gserviceaccount.com"
PUSHER = "serviceAccount:holdfast-execution-push@p-test.iam.gserviceaccount.com"
GROUP = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"

ONE_MORE: list[tuple[set[str], Declared]] = [
    ({"I04"}, grant("serviceIamMember:ServiceIamMember", "other", "roles/run.invoker", ACCOUNT, package="cloudrunv2",
                    name="holdfast-execution")),
    ({"I08"}, Declared("gcp:serviceaccount/key:Key", "key", {"serviceAccountId": "x"})),
    ({"I11"}, grant("topicIAMMember:TopicIAMMember", "all", "roles/pubsub.publisher", "allUsers", topic="objects")),
    ({"I11"}, grant("topicIAMMember:TopicIAMMember", "all", "roles/pubsub.publisher", "allAuthenticatedUsers",
                    topic="objects")),
    ({"I12"}, grant("iAMMember:IAMMember", "owner", "roles/owner", ACCOUNT, package="projects", project="p-test")),
    ({"I13"}, Declared("gcp:projects/iAMBinding:IAMBinding", "all", {"role": "roles/datastore.user", "members": []})),
    ({"I13"}, Declared("gcp:pubsub/topicIAMPolicy:TopicIAMPolicy", "all", {"topic": "objects", "policyData": "{}"})),
    ({"I13"}, Declared("gcp:cloudrunv2/serviceIamBinding:ServiceIamBinding", "all", {"role": "roles/run.invoker"})),
    ({"I15"}, grant("iAMMember:IAMMember", "wide", "roles/storage.admin", ACCOUNT, package="projects",
                    project="p-test")),
    ({"I16"}, grant("topicIAMMember:TopicIAMMember", "more", "roles/pubsub.publisher", PUSHER, topic="objects")),
    ({"X03"}, Declared(GROUP, "front", {"cloudRun": {"service": "holdfast-executor"}})),
]  # fmt: skip
"""Rules, and a resource that breaks them."""


@pytest.mark.parametrize(
    ("rules", "more"), ONE_MORE, ids=lambda value: value.key if isinstance(value, Declared) else ""
)
def test_a_resource_too_many_breaks_the_rule_against_it(rules: set[str], more: Declared) -> None:
    """BR-121: grants that set all members of a role take it from everyone else."""
    assert extended().plus(more).broken() == rules


def _nothing_kept() -> Program:
    """Without any subscription on the dead-letter topic."""
    program = rendered()
    for each in rendered().declared.values():
        if each.key.startswith("Subscription/") and each.inputs["topic"].endswith("-dead-letters"):
            program = program.without(each.key)
    return program


SEVERAL: list[tuple[set[str], Callable[[], Program]]] = [
    ({"T06", "T12"}, lambda: extended().changed(
        (PUSH, "ackDeadlineSeconds", 599.0), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "599"))),
    ({"T17"}, lambda: extended().changed(
        (API, "template.timeout", "3599s"), (API, "env.API_REQUEST_TIMEOUT_SECS", "3599"))),
    ({"D01", "I15"}, lambda: extended().changed((PUSH, "deadLetterPolicy", None)).plus(
        grant("iAMMember:IAMMember", "wide", "roles/pubsub.admin", AGENT, package="projects", project="p-test"))),
    ({"D03"}, _nothing_kept),
    ({"D08", "T10"}, lambda: extended().changed(
        (PUSH, "retryPolicy", None), (API, "env.API_MAX_QUEUE_AGE_SECS", "1000"))),
    ({"D10", "T06", "T12"}, lambda: extended().changed(
        (PUSH, "ackDeadlineSeconds", None), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "10"))),
    ({"I01"}, lambda: extended().changed((EXECUTOR, "template.serviceAccount", None)).unlinked(EXECUTOR)),
    ({"I02"}, lambda: extended().changed((PUSH, "pushConfig.oidcToken", None)).without(
        "ServiceIamMember/execution-push-invokes")),
    ({"I10"}, lambda: extended().changed((JOB, "httpTarget.uri", f"{address('holdfast-executor')}/tick"))),
    ({"X05"}, lambda: extended().changed((WORKER, "project", "other"))),
    ({"I04", "X06"}, lambda: extended().changed((PUSH, "pushConfig.pushEndpoint", "https://worker.example.com")).unlinked(PUSH)),
    ({"X07", "T11"}, lambda: extended().changed((PUSH, "pushConfig.pushEndpoint", "https://worker.example.com/"))),
    ({"S02"}, lambda: extended().in_stack("prod")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "program"), SEVERAL, ids=lambda value: "-".join(sorted(value)) if isinstance(value, set) else ""
)
def test_the_rules_that_take_more_than_one_change(expected: set[str], program: Callable[[], Program]) -> None:
    """BR-50: no retry policy; BR-119; BR-131: a domain of one's own in front of an internal service."""
    assert program().broken() == expected


def test_what_is_protected_breaks_nothing_in_production() -> None:
    """BR-119"""
    program = extended().in_stack("prod-eu")
    for key in (
        "Service/api-service",
        "Service/execution-service",
        "Service/executor-service",
        "Secret/signing-secret",
    ):
        program = program.with_(key, "deletionProtection", True)
    program = program.with_("DatabaseInstance/usage", "deletionProtection", True)
    program = program.with_("Database/state-database", "deleteProtectionState", "DELETE_PROTECTION_ENABLED")
    assert program.broken() == set()


def test_every_rule_is_broken_by_some_test() -> None:
    tested = {rule for rule, _ in ONE_CHANGE}
    for rules in [
        *(rules for rules, _ in ONE_LESS),
        *(rules for rules, _ in ONE_MORE),
        *(rules for rules, _ in SEVERAL),
    ]:
        tested |= rules
    assert {rule.id for rule in RULES} - tested == set()
