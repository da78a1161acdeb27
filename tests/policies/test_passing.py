"""What looks like a fault and is none: each of these programs breaks no rule."""

from __future__ import annotations

import pytest

from policies.verdict import judge
from tests.support.job_keys import pair
from tests.support.policy_mutations import UNKNOWN
from tests.support.policy_programs import (
    PROJECT,
    Change,
    Declared,
    Program,
    address,
    extended,
    rendered,
)

WORKER, API, EXECUTOR = "Service/execution-service", "Service/api-service", "Service/executor-service"
PUSH, LETTERS = "Subscription/execution-push", "Subscription/execution-dead-letters"
CONTAINER = "template.containers.0"
OTHER = "https://worker.example.com"
LATEST = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
EGRESS = {"networkInterfaces": [{"network": "n", "subnetwork": "s"}], "egress": "ALL_TRAFFIC"}

PASSING: dict[str, list[Change]] = {
    "T01 in a service that is told nothing": [(WORKER, "env.GCP_QUEUE_REQUEST_TIMEOUT_SECS", None)],
    "T03 with the last second used": [(WORKER, "env.EXECUTOR_TIMEOUT_SECS", "540")],
    "T04 with the last second used": [(EXECUTOR, "env.EXECUTOR_TIMEOUT_SECS", "3570")],
    "T06 with a fraction of a second": [(WORKER, "template.timeout", "600.5s")],
    "T09 where the worker is told nothing and 5 are few enough": [
        (WORKER, "env.GCP_QUEUE_BROKER_MAX_ATTEMPTS", None),
        (PUSH, "deadLetterPolicy.maxDeliveryAttempts", 5.0),
    ],
    "T09 with the platform's five attempts": [
        (WORKER, "env.GCP_QUEUE_BROKER_MAX_ATTEMPTS", "5"),
        (PUSH, "deadLetterPolicy.maxDeliveryAttempts", None),
    ],
    "T11 with a slash": [(PUSH, "pushConfig.pushEndpoint", f"{address('holdfast-execution')}/")],
    "T11 with an audience that the service accepts": [
        (PUSH, "pushConfig.oidcToken.audience", OTHER),
        (WORKER, "env.PUBSUB_PUSH_AUDIENCE", OTHER),
        (WORKER, "customAudiences", [address("holdfast-execution"), OTHER]),
    ],
    "T11 with the endpoint as audience": [(PUSH, "pushConfig.oidcToken.audience", None)],
    "T13 with the whole window": [(WORKER, f"{CONTAINER}.startupProbe.failureThreshold", 240.0)],
    "T14 with the platform's three minutes": [("Job/tick-job", "attemptDeadline", None)],
    "T16 with a URL that is not signed": [("Job/tick-job", "httpTarget.body", "aHR0cHM6Ly94LmV4YW1wbGUvP2E9Yg==")],
    "D03 with a sink beside it that forgets": [(LETTERS, "messageRetentionDuration", None)],
    "I05 with tokens checked by the worker": [
        (WORKER, "env.PUBSUB_PUSH_AUTH", "in_process"),
        (WORKER, "invokerIamDisabled", True),
    ],
    "X01 with the load balancer, and callbacks through the network": [
        (API, "ingress", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"),
        (WORKER, "template.vpcAccess", EGRESS),
    ],
    "X04 with all traffic through the network": [
        (API, "template.vpcAccess", EGRESS),
        ("ManagedZone/network-platform", "dnsName", "example.com."),
    ],
    "R02 with resources that leave the CPU to the platform": [(EXECUTOR, f"{CONTAINER}.resources.cpuIdle", None)],
    "R11 with a public key": [(EXECUTOR, "env.BACKEND_PUB", "-----BEGIN PUBLIC KEY-----")],
    "R11 with the public key before": [(WORKER, "env.BACKEND_PREVIOUS_PUB", pair().public)],
    "R11 with a name that only has the word in it": [(WORKER, "env.KEYBOARD", "x")],
    "R11 with nothing in it": [(WORKER, "env.SHOP_TOKEN", "")],
    "R11 with names of what is no secret": [
        (WORKER, f"env.{name}", "x")
        for name in ("PUBLIC_KEY", "API_KEY_HASHES", "TOKEN_URL", "SECRET_NAME", "MONKEY", "PASS_THROUGH", "MAX_TOKENS")
    ],
    "R12 with a number": [(API, "env.SHOP_SECRET", {"valueSource": {"secretKeyRef": {"secret": "s", "version": "7"}}})],
    "R15 with true": [(WORKER, "env.GCP_REQUIRE_OTEL", "true")],
    **{
        f"R19 with {cpu} CPU and {memory}": [(WORKER, f"{CONTAINER}.resources.limits", {"cpu": cpu, "memory": memory})]
        for cpu, memory in (
            *(("1", "128Mi"), ("1", "4Gi"), ("2000m", "8Gi"), ("4", "2Gi"), ("4", "16Gi"), ("6", "4Gi"), ("6", "24Gi")),
            *(("8", "4Gi"), ("8", "32Gi")),
        )
    },
    "D12 with a step that is switched off": [(PUSH, "messageTransforms", [{"disabled": True}])],
    "R21 with a part of the traffic": [
        (API, "traffics", [{"revision": "r-1", "percent": 50.0}, {"type": LATEST, "percent": 50.0}])
    ],
    "R21 with the revision that is deployed": [
        (API, "template.revision", "holdfast-api-2"),
        (API, "traffics", [{"revision": "holdfast-api-2", "percent": 100.0}]),
    ],
    "R21 with two instances by hand": [(WORKER, "scaling", {"scalingMode": "MANUAL", "manualInstanceCount": 2.0})],
    "S12 with other events of the same objects": [
        ("Notification/content-notifies-media", "objectNamePrefix", "users/"),
        ("Notification/content-notifies-media", "eventTypes", ["OBJECT_METADATA_UPDATE"]),
    ],
    "S12 with another topic": [("Notification/objects", "bucket", f"{PROJECT}-holdfast-content")],
    "L06 with places around the region": [
        ("Bucket/content", "location", "EU"),
        ("Database/state-database", "locationId", "eur3"),
    ],
    "L06 with a policy that has the region": [
        ("Topic/objects", "messageStoragePolicy.allowedPersistenceRegions", ["us-central1", "europe-west1"])
    ],
}


@pytest.mark.parametrize("changes", PASSING.values(), ids=PASSING)
def test_what_is_right_breaks_no_rule(changes: list[Change]) -> None:
    """BR-83, BR-118, BR-126, BR-128, BR-131, BR-134, BR-138"""
    assert extended().changed(*changes).broken() == set()


def test_an_image_that_a_build_will_name_breaks_no_rule() -> None:
    """A first preview: once the digest is known it is R01's, and a tag in its place is refused."""
    build = Declared("docker-build:index:Image", "runtime-image", {"push": False})
    program = rendered().plus(build).with_(WORKER, f"{CONTAINER}.image", UNKNOWN)
    assert program.broken() == {"R18"}

    worker = program.declared[WORKER]
    worker.property_dependencies = {**worker.property_dependencies, "template": (build.urn,)}
    assert program.broken() == set()
    assert program.with_(WORKER, f"{CONTAINER}.image", "runtime:latest").broken() == {"R01"}


def test_a_load_balancer_with_a_mask_breaks_no_rule_where_nothing_takes_work_from_inside() -> None:
    group = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"
    assert Program([Declared(group, "front", {"cloudRun": {"urlMask": "<service>.example.com"}})]).broken() == set()


def test_the_order_of_resources_does_not_matter() -> None:
    backwards = reversed(rendered().resources())
    assert judge(backwards) == []
