"""The shape of inputs is the SDK's own, at every depth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pulumi_gcp as gcp
import pytest

from sandbox.provider.behaviours import BEHAVIOURS
from sandbox.provider.faults import ProviderRefused, UnknownResourceTypeError
from sandbox.provider.provider import check
from sandbox.provider.schema import Anything, Block, Listing, Table, arguments_of, fields_of
from sandbox.world import MEMBER_TYPES, SERVICE, SUBSCRIPTION, TOPIC
from tests.support.provider import SERVICE_INPUTS, SUBSCRIPTION_INPUTS, changed, failures


def test_inputs_that_fit_are_accepted() -> None:
    assert failures(SERVICE, SERVICE_INPUTS) == []
    assert failures(SUBSCRIPTION, SUBSCRIPTION_INPUTS) == []


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("template.timeout", 600, "template.timeout: a number where a string is needed"),
        (
            "template.containers.0.resources",
            {"cpuIdle": "true"},
            "template.containers[0].resources.cpuIdle: a string where a boolean is needed",
        ),
        (
            "template.containers.0.resources",
            {"cpu_idl": True},
            "template.containers[0].resources.cpu_idl: unknown key; did you mean cpuIdle?",
        ),
        ("template.containers.0.image", ..., "template.containers[0].image: is required and missing"),
        ("templat", {}, "templat: unknown key; did you mean template?"),
        ("labels", {"a": 1}, "labels.a: a number where a string is needed"),
        ("customAudiences", "https://x", "customAudiences: a string where a list is needed"),
        ("template.containers", {}, "template.containers: a mapping where a list is needed"),
        ("template.scaling", [], "template.scaling: a list where a mapping is needed"),
        (
            "template.maxInstanceRequestConcurrency",
            1.5,
            "template.maxInstanceRequestConcurrency: a number where an integer is needed",
        ),
        ("deletionProtection", 1, "deletionProtection: a number where a boolean is needed"),
        ("location", ..., "location: is required and missing"),
    ],
)
def test_a_value_that_contradicts_the_sdk_is_refused_by_its_path(path: str, value: Any, failure: str) -> None:
    """BR-134 for the label."""
    assert failures(SERVICE, changed(SERVICE_INPUTS, path, value)) == [failure]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    assert failures(SUBSCRIPTION, {"pushConfig": {}, "expirationPolicy": {}, "deadLetterPolicy": {"max": 5}}) == [
        "topic: is required and missing",
        "pushConfig.pushEndpoint: is required and missing",
        "expirationPolicy.ttl: is required and missing",
        "deadLetterPolicy.max: unknown key; known are deadLetterTopic, maxDeliveryAttempts",
    ]


def test_a_value_itself_is_never_repeated_because_it_may_be_a_secret() -> None:
    (failure,) = failures("gcp:secretmanager/secretVersion:SecretVersion", {"secret": "s", "secretData": ["sesame"]})
    assert "sesame" not in failure


@pytest.mark.parametrize("token", ["gcp:foo/bar:Baz", "gcp:pubsub/topic:Tropic", "aws:s3/bucket:Bucket", "gcp:pubsub"])
def test_an_unknown_type_is_refused_by_name(token: str) -> None:
    with pytest.raises(UnknownResourceTypeError, match=f"resource type {token} is not in the installed pulumi_gcp"):
        check(token, {})


@pytest.mark.parametrize(
    "token",
    [
        "gcp:projects/iAMBinding:IAMBinding",
        "gcp:projects/iAMPolicy:IAMPolicy",
        "gcp:pubsub/topicIAMBinding:TopicIAMBinding",
        "gcp:cloudrunv2/serviceIamPolicy:ServiceIamPolicy",
    ],
)
def test_authoritative_grants_are_refused(token: str) -> None:
    """BR-121."""
    with pytest.raises(ProviderRefused, match="use the IAMMember form"):
        check(token, {})


PRODUCTS = [
    "artifactregistry",
    "cloudrunv2",
    "cloudscheduler",
    "dns",
    "firestore",
    "monitoring",
    "projects",
    "pubsub",
    "secretmanager",
    "serviceaccount",
    "servicenetworking",
    "sql",
]


def tokens_of(product: str) -> list[str]:
    """Every resource type of a product, as the SDK lists them."""
    listed = Path(gcp.__file__).read_text()
    return sorted(set(re.findall(rf'"(gcp:{product}/[^":]+:[^":]+)": "', listed)))


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_type_of_the_products_we_use_has_a_shape_down_to_its_leaves(product: str) -> None:
    tokens = tokens_of(product)
    assert tokens
    seen: set[type] = set()
    for token in tokens:
        _walk(Block(arguments_of(token)), seen, token)


@pytest.mark.parametrize("token", [*BEHAVIOURS, "gcp:privilegedaccessmanager/entitlement:entitlement"])
def test_every_type_that_the_sandbox_acts_on_has_a_shape_down_to_its_leaves(token: str) -> None:
    """And one whose class begins in lower case, as the SDK has a few."""
    _walk(Block(arguments_of(token)), set(), token)


def _walk(kind: object, seen: set[type], where: str) -> None:
    match kind:
        case Listing(item) | Table(item):
            _walk(item, seen, where)
        case Block(arguments) if arguments not in seen:
            seen.add(arguments)
            for name, field in fields_of(arguments).types.items():
                _walk(field, seen, f"{where}.{name}")
        case Anything():
            raise AssertionError(f"{where} has no known type")


def test_every_kind_of_grant_that_the_world_reads_is_in_the_sdk() -> None:
    for token, (_, target) in MEMBER_TYPES.items():
        assert {target, "role", "member"} <= fields_of(arguments_of(token)).types.keys()


def test_a_missing_name_is_made_from_the_logical_one_and_is_the_same_in_every_run() -> None:
    first, _ = check(TOPIC, {}, logical="jobs", config={"project": "p-test"})
    second, _ = check(TOPIC, {}, logical="jobs", config={"project": "p-test"})

    assert first == second
    assert first["name"].startswith("jobs-")
    assert len(first["name"]) == len("jobs-") + 7
