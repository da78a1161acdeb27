"""What Cloud Storage, Artifact Registry and a storage subscription refuse although the SDK does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.provider import provider
from sandbox.provider.faults import ProviderRefused
from sandbox.provider.products.artifact_registry import REPOSITORY
from sandbox.provider.products.storage import BUCKET, NOTIFICATION
from sandbox.world import SUBSCRIPTION, TOPIC, World
from tests.support.provider import PROJECT, changed, checked, create, declared, failures, new_world

BUCKET_INPUTS: dict[str, Any] = {"name": "letters", "location": "EUROPE-WEST1"}
NOTIFICATION_INPUTS: dict[str, Any] = {
    "bucket": "letters",
    "topic": f"projects/{PROJECT}/topics/objects",
    "payloadFormat": "JSON_API_V1",
    "objectNamePrefix": "media/",
}
SINK_INPUTS: dict[str, Any] = {
    "name": "sink",
    "topic": f"projects/{PROJECT}/topics/objects",
    "ackDeadlineSeconds": 600,
    "cloudStorageConfig": {"bucket": "letters", "maxDuration": "300s", "avroConfig": {"writeMetadata": True}},
}
REPOSITORY_INPUTS: dict[str, Any] = {"repositoryId": "holdfast", "location": "europe-west1", "format": "DOCKER"}
KEEP = {"id": "k", "action": "KEEP", "mostRecentVersions": {"keepCount": 5}}


def announcing(tmp_path: Path) -> World:
    """A world in which the storage agent may publish."""
    world = new_world(tmp_path)
    create(world, BUCKET, BUCKET_INPUTS)
    create(world, TOPIC, {"name": "objects"})
    agent = world.agent("gs-project-accounts")
    grant = {"topic": "objects", "role": "roles/pubsub.publisher", "member": agent}
    create(world, "gcp:pubsub/topicIAMMember:TopicIAMMember", grant)
    return world


@pytest.mark.parametrize("name", ["Letters", "le", "a" * 64, "goog-letters", "my-google-files", "a.example.com", "-a1"])
def test_a_bucket_whose_name_cloud_storage_refuses(name: str) -> None:
    (found,) = failures(BUCKET, {**BUCKET_INPUTS, "name": name})
    assert "3 to 63 lower case letters" in found


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("location", "Frankfurt", "location: 'Frankfurt' is refused"),
        ("publicAccessPrevention", "on", "publicAccessPrevention: 'on' is refused"),
        ("storageClass", "COLD", "storageClass: 'COLD' is refused"),
        ("softDeletePolicy", {"retentionDurationSeconds": 3600}, "3600 is refused; it must be 0, or 604800 to 7776000"),
        ("lifecycleRules", [{"action": {"type": "Remove"}, "condition": {"age": 1}}], "[0].action.type: 'Remove'"),
        ("lifecycleRules", [{"action": {"type": "SetStorageClass"}, "condition": {"age": 1}}], "which needs it"),
        ("lifecycleRules", [{"action": {"type": "Delete"}, "condition": {}}], "lifecycleRules[0].condition: is empty"),
        ("deletionPolicy", "KEEP", "deletionPolicy: 'KEEP' is refused"),
    ],
)
def test_a_bucket_that_cloud_storage_refuses(path: str, value: Any, failure: str) -> None:
    """BR-138 for the place."""
    (found,) = failures(BUCKET, changed(BUCKET_INPUTS, path, value))
    assert failure in found


def test_a_bucket_gets_cloud_storages_defaults_and_checking_twice_changes_nothing() -> None:
    once = checked(BUCKET, BUCKET_INPUTS)
    assert once["uniformBucketLevelAccess"] is False
    assert once["softDeletePolicy"] == {"retentionDurationSeconds": 604_800}
    assert checked(BUCKET, once) == once


def test_a_bucket_moves_only_by_being_replaced_and_a_kept_one_does_not_go(tmp_path: Path) -> None:
    """BR-119."""
    world = new_world(tmp_path)
    kept = create(world, BUCKET, {**BUCKET_INPUTS, "deletionPolicy": "PREVENT"})
    moved = declared(BUCKET, {**BUCKET_INPUTS, "location": "EU"}, world)

    assert "location" in provider.diff(kept, moved).replaces
    assert provider.delete_refusal(world, kept) == "deletionPolicy is PREVENT; deploy it as DELETE first"
    assert kept.outputs["url"] == "gs://letters"


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("payloadFormat", "JSON", "payloadFormat: 'JSON' is refused"),
        ("eventTypes", ["OBJECT_FINALIZE", "OBJECT_MADE"], "eventTypes[1]: 'OBJECT_MADE' is refused"),
        ("objectNamePrefix", "x" * 1025, "objectNamePrefix: is longer than 1024 bytes"),
    ],
)
def test_a_notification_that_cloud_storage_refuses(path: str, value: Any, failure: str) -> None:
    (found,) = failures(NOTIFICATION, changed(NOTIFICATION_INPUTS, path, value))
    assert failure in found


def test_a_notification_needs_its_topic_and_the_agents_grant_on_it(tmp_path: Path) -> None:
    """BR-87."""
    world = new_world(tmp_path)
    with pytest.raises(ProviderRefused, match=r"bucket letters does not exist.*topic .*/objects does not exist"):
        create(world, NOTIFICATION, NOTIFICATION_INPUTS)
    create(world, BUCKET, BUCKET_INPUTS)
    create(world, TOPIC, {"name": "objects"})
    with pytest.raises(ProviderRefused, match=r"missing grant: roles/pubsub.publisher on topic objects for .*@gs-"):
        create(world, NOTIFICATION, NOTIFICATION_INPUTS)


def test_the_same_notification_twice_is_refused_and_another_prefix_is_not(tmp_path: Path) -> None:
    """BR-83."""
    world = announcing(tmp_path)
    first = create(world, NOTIFICATION, NOTIFICATION_INPUTS)
    other = create(world, NOTIFICATION, {**NOTIFICATION_INPUTS, "objectNamePrefix": "apps/"})

    assert first.outputs["id"] != other.outputs["id"]
    with pytest.raises(ProviderRefused, match="already exists"):
        create(world, NOTIFICATION, NOTIFICATION_INPUTS)
    narrower = declared(NOTIFICATION, {**NOTIFICATION_INPUTS, "eventTypes": ["OBJECT_DELETE"]}, world)
    assert provider.diff(first, narrower).replaces == ("eventTypes",)


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("cloudStorageConfig.maxDuration", "59s", "maxDuration: '59s' is refused"),
        ("ackDeadlineSeconds", 60, "maxDuration: 300s is longer than the ack deadline, 60 s"),
        ("cloudStorageConfig.maxBytes", 999, "maxBytes: 999 is refused"),
        ("cloudStorageConfig.maxMessages", 999, "maxMessages: 999 is refused"),
        ("cloudStorageConfig.filenameSuffix", "letters/", "filenameSuffix: ends with a slash"),
        ("cloudStorageConfig.textConfig", {}, "textConfig: is refused beside avroConfig"),
        ("pushConfig", {"pushEndpoint": "https://a.example"}, "cloudStorageConfig: is refused beside pushConfig"),
    ],
)
def test_a_storage_subscription_that_pubsub_refuses(path: str, value: Any, failure: str) -> None:
    (found,) = failures(SUBSCRIPTION, changed(SINK_INPUTS, path, value))
    assert failure in found


def test_a_storage_subscription_needs_its_bucket(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    create(world, TOPIC, {"name": "objects"})
    with pytest.raises(ProviderRefused, match="bucket letters does not exist"):
        create(world, SUBSCRIPTION, SINK_INPUTS)
    create(world, BUCKET, BUCKET_INPUTS)
    create(world, SUBSCRIPTION, SINK_INPUTS)


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("repositoryId", "Holdfast", "repositoryId: 'Holdfast' is refused"),
        ("format", "OCI", "format: 'OCI' is refused"),
        ("deletionPolicy", "KEEP", "deletionPolicy: 'KEEP' is refused"),
        ("vulnerabilityScanningConfig", {"enablementConfig": "ON"}, "enablementConfig: 'ON' is refused"),
        ("cleanupPolicies", [KEEP, KEEP], "cleanupPolicies: has two policies of one id"),
        ("cleanupPolicies", [{"id": "d", "action": "DELETE"}], "exactly one of condition and mostRecentVersions"),
        ("cleanupPolicies", [{**KEEP, "action": "DELETE"}], "mostRecentVersions: is for KEEP only"),
        (
            "cleanupPolicies",
            [{"id": "d", "action": "DELETE", "condition": {"olderThan": "30d"}}],
            "condition.olderThan: '30d' is refused",
        ),
    ],
)
def test_a_repository_that_artifact_registry_refuses(path: str, value: Any, failure: str) -> None:
    (found,) = failures(REPOSITORY, changed(REPOSITORY_INPUTS, path, value))
    assert failure in found


def test_a_repository_says_where_images_are_pushed(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    made = create(world, REPOSITORY, REPOSITORY_INPUTS)
    assert made.outputs["registryUri"] == f"europe-west1-docker.pkg.dev/{PROJECT}/holdfast"
    assert provider.delete_refusal(world, made) is None


def test_a_repository_that_is_protected_is_not_deleted(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    kept = create(world, REPOSITORY, {**REPOSITORY_INPUTS, "deletionPolicy": "PREVENT"})
    assert provider.delete_refusal(world, kept) == "deletionPolicy is PREVENT; deploy it as DELETE first"
