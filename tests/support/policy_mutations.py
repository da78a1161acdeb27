"""Changes to the dev stack, each with the rules of the policy pack that it breaks and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.support.policy_programs import (
    ACCOUNTS,
    AGENT,
    PROJECT,
    SUBSCRIPTION,
    Change,
    Declared,
    Program,
    address,
    extended,
    grant,
    long_requests,
    protected,
    rendered,
)

WORKER, API, EXECUTOR = "Service/execution-service", "Service/api-service", "Service/executor-service"
PUSH, LETTERS, JOB = "Subscription/execution-push", "Subscription/execution-dead-letters", "Job/tick-job"
RECORDING = "Subscription/execution-dead-letters-push"
CONTAINER = "template.containers.0"
ENDPOINT = f"{address('holdfast-execution')}"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""A text that is not known yet, as the engine hands it over."""
TRANSFORMS = [{"javascriptUdf": {"functionName": "f", "code": "function f(m) { return m; }"}}]
REVISION = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
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
    ("D01", (PUSH, "deadLetterPolicy", None)),
    ("D08", (PUSH, "retryPolicy", None)),
    ("D10", (RECORDING, "ackDeadlineSeconds", None)),
    ("D11", (PUSH, "filter", "attributes.kind = 'a'")),
    ("D11", (LETTERS, "filter", "attributes.kind = 'a'")),
    ("D12", (PUSH, "pushConfig.noWrapper", {"writeMetadata": True})),
    ("D12", (RECORDING, "messageTransforms", TRANSFORMS)),
    ("D12", ("Topic/execution-jobs", "messageTransforms", TRANSFORMS)),
    ("I01", (EXECUTOR, "template.serviceAccount", None)),
    ("I01", (EXECUTOR, "template.serviceAccount", "123456789012-compute@developer.gserviceaccount.com")),
    ("I01", (EXECUTOR, "template.serviceAccount", f"holdfast-api@{ACCOUNTS}")),
    ("I05", (WORKER, "env.PUBSUB_PUSH_AUTH", "in_process")),
    ("I06", (EXECUTOR, "invokerIamDisabled", True)),
    *((rule, (key, "condition", {"title": "never", "expression": "false"})) for rule, key in (
        ("D04", "TopicIAMMember/execution-agent-dead-letters"),
        ("D05", "SubscriptionIAMMember/execution-agent-forwards"),
        ("D06", "BucketIAMMember/letters-agent-creates"), ("I03", "ServiceIamMember/execution-push-invokes"),
        ("I07", "IAMMember/execution-agent-signs"), ("S08", "TopicIAMMember/content-storage-publishes"))),
    ("I09", (JOB, "httpTarget.oidcToken", None)),
    ("I14", ("IAMMember/api-uses-state", "member", f"serviceAccount:Holdfast-Api@{ACCOUNTS}")),
    ("I19", ("Account/execution-push-identity", "disabled", True)),
    ("I19", ("Account/api-account", "disabled", True)),
    ("X01", (EXECUTOR, "ingress", "INGRESS_TRAFFIC_ALL")),
    ("X01", (WORKER, "ingress", None)),
    ("X02", (WORKER, "ingress", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER")),
    ("X04", (API, "template.vpcAccess", None)),
    ("X04", ("ManagedZone/network-platform", "dnsName", "example.com.")),
    ("X04", ("Subnetwork/network-subnet", "privateIpGoogleAccess", False)),
    ("X04", ("Subnetwork/network-subnet", "privateIpGoogleAccess", None)),
    ("X04", ("RecordSet/network-platform-services", "name", "example.com.")),
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
    ("R06", (WORKER, "scaling", {"scalingMode": "MANUAL", "manualInstanceCount": 101.0})),
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
    ("R10", (WORKER, "env.grpc_proxy", "")),
    ("R10", (API, "env.GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.com")),
    *(("R11", (WORKER, f"env.{name}", "x")) for name in (
        "DB_PASS", "db_password", "STRIPE_APIKEY", "API_KEY_V2", "PRIVATE_KEY_PEM", "SHOP_TOKEN_FOR_ALL")),
    ("R12", (API, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s"}}})),
    ("R13", (API, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "latest"}}})),
    ("R14", (WORKER, "env.BACKEND_KEY", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "7"}}})),
    ("R14", (WORKER, "env.DATABASE_URL", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "7"}}})),
    ("R15", (WORKER, "env.LIMIT", 600.0)),
    ("R15", (WORKER, "env.GCP_REQUIRE_OTEL", "True")),
    ("R16", (WORKER, "description", "Calling __str__ on an Output[T] is not supported.")),
    ("R17", (WORKER, f"{CONTAINER}.ports.name", "h2c")),
    ("R17", (API, f"{CONTAINER}.ports.name", "h2c")),
    ("R18", (WORKER, f"{CONTAINER}.image", UNKNOWN)),
    ("R21", (WORKER, "scaling", {"scalingMode": "MANUAL", "manualInstanceCount": 0.0})),
    ("R21", (WORKER, "scaling", {"scalingMode": "MANUAL"})),
    ("R21", (API, "traffics", [{"type": REVISION, "revision": "holdfast-api-00001", "percent": 100.0}])),
    ("R21", (API, "traffics", [{"type": REVISION, "revision": "r-1", "percent": 100.0}, {"tag": "next"}])),
    ("R22", (JOB, "paused", True)),
    *(("R19", (WORKER, f"{CONTAINER}.resources.limits", {"cpu": cpu, "memory": memory})) for cpu, memory in (
        ("8", "1Gi"), ("1", "99999Gi"), ("1", "1Mi"), ("4", "2047Mi"), ("6", "4095Mi"), ("1", "4097Mi"),
        ("2", "8193Mi"), ("4", "16385Mi"), ("6", "24577Mi"), ("8", "32769Mi"),
        ("1999m", "5G"), ("8", "much"), ("1", "127Mi"))),
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
    ("S12", ("Notification/content-notifies-media", "objectNamePrefix", "users/1/")),
    ("S11", ("Bucket/content", "uniformBucketLevelAccess", None)),
    ("S11", ("Bucket/content", "publicAccessPrevention", "inherited")),
    ("L01", ("Topic/objects", "labels.part", 1.0)),
    ("L01", ("Topic/objects", "labels.part", "X")),
    ("L01", ("Topic/objects", "labels.Team", "x")),
    ("L02", ("Topic/objects", "labels", None)),
    ("L03", ("Subscription/sink", "name", None)),
    ("L05", (EXECUTOR, "location", None)),
    ("L06", (JOB, "region", "us-central1")),
    ("L06", ("Bucket/content", "location", "US")),
    ("L06", ("Bucket/content", "location", "EUROPE-WEST4")),
    ("L06", ("Database/state-database", "locationId", "nam5")),
    ("L06", ("DatabaseInstance/usage", "region", "us-central1")),
    ("L06", ("Topic/objects", "messageStoragePolicy.allowedPersistenceRegions", ["us-central1"])),
]  # fmt: skip
"""Rule, and the change that breaks it alone."""

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
    ({"X04"}, "RecordSet/network-platform-services"),
    ({"X04"}, "RecordSet/network-platform-addresses"),
]
"""Rules, and the resource that they need."""


ACCOUNT = f"serviceAccount:holdfast-api@{ACCOUNTS}"
PUSHER = f"serviceAccount:holdfast-execution-push@{ACCOUNTS}"
WORKS = f"serviceAccount:holdfast-execution@{ACCOUNTS}"
SOMEONE = "user:someone@example.com"
SIGNS = "roles/iam.serviceAccountTokenCreator"
JOBS = f"projects/{PROJECT}/topics/holdfast-execution-jobs"
GROUP = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"

IMAGE = f"europe-west1-docker.pkg.dev/p/r/i@sha256:{'0' * 64}"
WORKER_POOL = "gcp:cloudrunv2/workerPool:WorkerPool"


def _job(variable: dict[str, Any]) -> Declared:
    container = {"image": IMAGE, "envs": [variable]}
    return Declared("gcp:cloudrunv2/job:Job", "other", {"template": {"template": {"containers": [container]}}})


def _first_api(container: dict[str, Any]) -> Declared:
    return Declared("gcp:cloudrun/service:Service", "first", {"template": {"spec": {"containers": [container]}}})


ONE_MORE: list[tuple[set[str], Declared]] = [
    ({"I04"}, grant("serviceIamMember:ServiceIamMember", "other", "roles/run.invoker", ACCOUNT, package="cloudrunv2",
                    name="holdfast-execution")),
    ({"I04"}, grant("serviceIamMember:ServiceIamMember", "other", "roles/run.invoker", PUSHER, package="cloudrunv2",
                    name="holdfast-executor")),
    ({"I08"}, Declared("gcp:serviceaccount/key:Key", "key", {"serviceAccountId": "x"})),
    ({"I11"}, grant("topicIAMMember:TopicIAMMember", "all", "roles/pubsub.publisher", "allUsers", topic="objects")),
    ({"I11"}, grant("topicIAMMember:TopicIAMMember", "all", "roles/pubsub.publisher", "allAuthenticatedUsers",
                    topic="objects")),
    ({"I12"}, grant("iAMMember:IAMMember", "owner", "roles/owner", ACCOUNT, package="projects", project=PROJECT)),
    ({"I13"}, Declared("gcp:projects/iAMBinding:IAMBinding", "all", {"role": "roles/datastore.user", "members": []})),
    ({"I13"}, Declared("gcp:pubsub/topicIAMPolicy:TopicIAMPolicy", "all", {"topic": "objects", "policyData": "{}"})),
    ({"I13"}, Declared("gcp:cloudrunv2/serviceIamBinding:ServiceIamBinding", "all", {"role": "roles/run.invoker"})),
    ({"I15"}, grant("iAMMember:IAMMember", "wide", "roles/storage.admin", ACCOUNT, package="projects",
                    project=PROJECT)),
    ({"I16"}, grant("topicIAMMember:TopicIAMMember", "more", "roles/pubsub.publisher", PUSHER, topic="objects")),
    ({"I16", "I17"}, grant("iAMMember:IAMMember", "speaks", SIGNS, PUSHER, package="serviceaccount",
                           serviceAccountId=f"projects/{PROJECT}/serviceAccounts/holdfast-tick@{ACCOUNTS}")),
    ({"I17"}, grant("secretIamMember:SecretIamMember", "reads", "roles/secretmanager.secretAccessor", WORKS,
                    package="secretmanager", secretId=f"projects/{PROJECT}/secrets/holdfast-signing-key")),
    ({"I17"}, grant("iAMMember:IAMMember", "speaks", SIGNS, WORKS, package="serviceaccount",
                    serviceAccountId=f"projects/{PROJECT}/serviceAccounts/holdfast-api@{ACCOUNTS}")),
    ({"I17"}, grant("iAMMember:IAMMember", "speaks", SIGNS, ACCOUNT, package="serviceaccount",
                    serviceAccountId=f"projects/{PROJECT}/serviceAccounts/holdfast-execution@{ACCOUNTS}")),
    ({"I17"}, grant("iAMMember:IAMMember", "speaks", SIGNS, AGENT.replace("123456789012", "999999999999"),
                    package="serviceaccount",
                    serviceAccountId=f"projects/{PROJECT}/serviceAccounts/holdfast-tick@{ACCOUNTS}")),
    ({"I17"}, grant("topicIAMMember:TopicIAMMember", "publishes", "roles/pubsub.publisher", WORKS, topic=JOBS)),
    ({"I17"}, grant("secretIamMember:SecretIamMember", "reads", "roles/secretmanager.secretAccessor", SOMEONE,
                    package="secretmanager", secretId="holdfast-signing-key")),
    ({"I17"}, grant("iAMMember:IAMMember", "speaks", "roles/iam.workloadIdentityUser", SOMEONE,
                    package="serviceaccount",
                    serviceAccountId=f"projects/{PROJECT}/serviceAccounts/holdfast-api@{ACCOUNTS}")),
    ({"I17"}, grant("topicIAMMember:TopicIAMMember", "rules", "roles/pubsub.admin", SOMEONE, topic=JOBS)),
    ({"I17"}, grant("bucketIAMMember:BucketIAMMember", "rules", "roles/storage.admin", WORKS, package="storage",
                    bucket="content")),
    ({"I17"}, grant("iAMMember:IAMMember", "reads", "roles/datastore.user",
                    f"serviceAccount:holdfast-executor@{ACCOUNTS}", package="projects", project=PROJECT)),
    ({"I17", "I18"}, grant("iAMMember:IAMMember", "speaks", SIGNS, SOMEONE, package="projects", project=PROJECT)),
    ({"I18"}, grant("iAMMember:IAMMember", "wide", "roles/artifactregistry.writer", "serviceAccount:ci@x.example",
                    package="projects", project=PROJECT)),
    ({"L04"}, Declared("gcp:serviceaccount/account:Account", "short", {"accountId": "A", "project": PROJECT})),
    ({"R01"}, Declared(WORKER_POOL, "pool", {"template": {"containers": [{"image": "i:latest"}]}})),
    ({"R01", "R20"}, _first_api({"image": "i:latest"})),
    ({"R09"}, _job({"name": "PORT", "value": "8080"})),
    ({"R10"}, _job({"name": "PUBSUB_EMULATOR_HOST", "value": ""})),
    ({"R11"}, _job({"name": "BACKEND_KEY", "value": "plain"})),
    ({"R12"}, _job({"name": "SHOP", "valueSource": {"secretKeyRef": {"secret": "s"}}})),
    ({"R13", "R20"}, _first_api({"image": IMAGE, "envs": [
        {"name": "SHOP", "valueFrom": {"secretKeyRef": {"name": "s", "key": "latest"}}}]})),
    ({"R19"}, Declared(WORKER_POOL, "pool", {"template": {"containers": [
        {"image": IMAGE, "resources": {"limits": {"memory": "511Mi"}}}]}})),
    ({"R20"}, _first_api({"image": IMAGE, "envs": [{"name": "A", "value": "b"}]})),
    ({"X03"}, Declared(GROUP, "front", {"cloudRun": {"urlMask": "<service>.example.com"}})),
    ({"X03"}, Declared(GROUP, "front", {"cloudRun": {"service": "holdfast-executor"}})),
]  # fmt: skip
"""Rules, and a resource that breaks them."""


def _nothing_kept() -> Program:
    """Without any subscription on the dead-letter topic."""
    program = rendered()
    for each in rendered().declared.values():
        if each.key.startswith("Subscription/") and each.inputs["topic"].endswith("-dead-letters"):
            program = program.without(each.key)
    return program


def _kept_in_part() -> Program:
    """With a filter on every subscription on the dead-letter topic."""
    subscriptions = [each for each in extended().declared.values() if each.type == SUBSCRIPTION]
    kept = [each.key for each in subscriptions if each.inputs["topic"].endswith("-dead-letters")]
    return extended().changed(*((key, "filter", "attributes.kind = 'a'") for key in kept))


def _protected_but(change: Change) -> Program:
    return protected().changed(change)


def _agent_of_another_project() -> Program:
    """Every grant to Pub/Sub's agent is to that of another project."""
    keys = [key for key, each in extended().declared.items() if each.inputs.get("member") == AGENT]
    return extended().changed(*((key, "member", AGENT.replace("123456789012", "999999999999")) for key in keys))


def _called_on_condition() -> Program:
    """A job that may call the executor only where a condition holds."""
    tick = f"serviceAccount:holdfast-tick@{ACCOUNTS}"
    invokes = grant("serviceIamMember:ServiceIamMember", "tick", "roles/run.invoker", tick, package="cloudrunv2",
                    name="holdfast-executor")  # fmt: skip
    program = extended().changed((JOB, "httpTarget.uri", f"{address('holdfast-executor')}/tick")).plus(invokes)
    return program.with_(invokes.key, "condition", {"title": "never", "expression": "false"})


SEVERAL: list[tuple[set[str], Callable[[], Program]]] = [
    ({"T06"}, lambda: extended().changed(
        (PUSH, "ackDeadlineSeconds", 599.0), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "599"),
        (WORKER, f"{CONTAINER}.resources.cpuIdle", False))),
    ({"T12"}, lambda: long_requests().changed((WORKER, "template.scaling.maxInstanceCount", 1.0))),
    ({"X06"}, lambda: extended().changed((RECORDING, "pushConfig.pushEndpoint", "https://x.example")).unlinked(RECORDING)),
    ({"X07"}, lambda: extended().changed(
        (RECORDING, "pushConfig.pushEndpoint", f"{address('holdfast-api').replace('https', 'http')}/internal"))),
    ({"T06", "T12"}, lambda: extended().changed(
        (PUSH, "ackDeadlineSeconds", 599.0), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "599"))),
    ({"T17"}, lambda: extended().changed(
        (API, "template.timeout", "3599s"), (API, "env.API_REQUEST_TIMEOUT_SECS", "3599"))),
    ({"D04", "D05", "D06", "I07", "I17"}, _agent_of_another_project),
    ({"I10"}, _called_on_condition),
    ({"D01", "I18"}, lambda: extended().changed((PUSH, "deadLetterPolicy", None)).plus(
        grant("iAMMember:IAMMember", "wide", "roles/pubsub.admin", AGENT, package="projects", project=PROJECT))),
    ({"D03"}, _nothing_kept),
    ({"D03", "D11"}, _kept_in_part),
    ({"D08", "T10"}, lambda: extended().changed(
        (PUSH, "retryPolicy", None), (API, "env.API_MAX_QUEUE_AGE_SECS", "1000"))),
    ({"D10", "T06", "T12"}, lambda: extended().changed(
        (PUSH, "ackDeadlineSeconds", None), (WORKER, "env.GCP_QUEUE_ACK_DEADLINE_SECS", "10"))),
    ({"I02"}, lambda: extended().changed((PUSH, "pushConfig.oidcToken", None)).without(
        "ServiceIamMember/execution-push-invokes")),
    ({"I10"}, lambda: extended().changed((JOB, "httpTarget.uri", f"{address('holdfast-executor')}/tick"))),
    ({"X05"}, lambda: extended().changed((WORKER, "project", "other"))),
    ({"I04", "X06"}, lambda: extended().changed((PUSH, "pushConfig.pushEndpoint", "https://worker.example.com")).unlinked(PUSH)),
    ({"X07", "T11"}, lambda: extended().changed((PUSH, "pushConfig.pushEndpoint", "https://worker.example.com/"))),
    ({"S02"}, lambda: extended().in_stack("prod")),
    *(({"S02"}, partial(_protected_but, change)) for change in (
        ("Database/state-database", "deleteProtectionState", "DELETE_PROTECTION_STATE_UNSPECIFIED"),
        ("Bucket/letters-bucket", "forceDestroy", True),
        ("Repository/images-repository", "deletionPolicy", None))),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """A program that breaks rules.

    Attributes:
        rules: their ids.
        name: what is changed, for people.
        program: makes it.
    """

    rules: frozenset[str]
    name: str
    program: Callable[[], Program]

    def __str__(self) -> str:
        return f"{'-'.join(sorted(self.rules))}-{self.name}"


def _changed(*changes: Change) -> Program:
    return extended().changed(*changes)


def _without(key: str) -> Program:
    return extended().without(key)


def _plus(more: Declared) -> Program:
    return extended().plus(more)


def _mutations() -> Iterator[Mutation]:
    for rule, change in ONE_CHANGE:
        yield Mutation(frozenset({rule}), change[1], partial(_changed, change))
    for rules, missing in ONE_LESS:
        yield Mutation(frozenset(rules), f"without {missing}", partial(_without, missing))
    for rules, more in ONE_MORE:
        yield Mutation(frozenset(rules), more.key, partial(_plus, more))
    for rules, program in SEVERAL:
        yield Mutation(frozenset(rules), "several", program)


MUTATIONS: Final = tuple(_mutations())
