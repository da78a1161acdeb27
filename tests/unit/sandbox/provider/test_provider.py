"""Creating, changing and deleting in a world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.provider import provider
from sandbox.provider.behaviour import Surroundings
from sandbox.provider.faults import ProviderRefused
from sandbox.provider.fingerprint import fingerprint, recognises
from sandbox.world import (
    ACCOUNT,
    DATABASE,
    DNS_RECORD,
    DNS_ZONE,
    FIELD,
    SECRET,
    SECRET_VERSION,
    SERVICE,
    SUBNET,
    SUBSCRIPTION,
    TOPIC,
    World,
)
from tests.support.provider import (
    PROJECT,
    SERVICE_INPUTS,
    SUBSCRIPTION_INPUTS,
    changed,
    create,
    declared,
    furnished,
    new_world,
)

SECRETS = frozenset({"secretData"})


def test_what_the_platform_computes_is_what_programs_use(tmp_path: Path) -> None:
    world = furnished(tmp_path)
    account = create(world, ACCOUNT, {"accountId": "worker-id"}).outputs
    service = create(world, SERVICE, SERVICE_INPUTS).outputs

    assert account["email"] == f"worker-id@{PROJECT}.iam.gserviceaccount.com"
    assert account["member"] == f"serviceAccount:{account['email']}"
    assert account["name"] == f"projects/{PROJECT}/serviceAccounts/{account['email']}"
    assert service["uri"] == "https://worker-123456789012.europe-west1.run.app"
    assert service["urls"] == [service["uri"]]
    assert service["id"] == f"projects/{PROJECT}/locations/europe-west1/services/worker"
    assert (
        create(world, SUBSCRIPTION, SUBSCRIPTION_INPUTS).outputs["id"] == f"projects/{PROJECT}/subscriptions/jobs-push"
    )
    assert (topic := world.find(TOPIC, "jobs")) is not None
    assert topic.outputs["id"] == f"projects/{PROJECT}/topics/jobs"


def test_full_names_find_what_was_declared(tmp_path: Path) -> None:
    world = furnished(tmp_path)

    assert world.find(TOPIC, f"projects/{PROJECT}/topics/jobs") is world.find(TOPIC, "jobs")
    assert (
        world.find(ACCOUNT, f"projects/{PROJECT}/serviceAccounts/push-id@{PROJECT}.iam.gserviceaccount.com") is not None
    )


@pytest.mark.parametrize(
    ("type_", "inputs", "message"),
    [
        (SUBSCRIPTION, changed(SUBSCRIPTION_INPUTS, "topic", "gone"), "topic: topic gone does not exist"),
        (
            SUBSCRIPTION,
            changed(SUBSCRIPTION_INPUTS, "deadLetterPolicy.deadLetterTopic", f"projects/{PROJECT}/topics/gone"),
            "deadLetterPolicy.deadLetterTopic: topic projects/p-test/topics/gone does not exist",
        ),
        (
            SUBSCRIPTION,
            changed(
                SUBSCRIPTION_INPUTS, "pushConfig.oidcToken.serviceAccountEmail", f"x@{PROJECT}.iam.gserviceaccount.com"
            ),
            "service account x@p-test.iam.gserviceaccount.com does not exist",
        ),
        (
            SERVICE,
            changed(SERVICE_INPUTS, "template.serviceAccount", f"x@{PROJECT}.iam.gserviceaccount.com"),
            "template.serviceAccount: service account x@p-test.iam.gserviceaccount.com does not exist",
        ),
        (
            SERVICE,
            changed(
                SERVICE_INPUTS,
                "template.containers.0.envs",
                [{"name": "KEY", "valueSource": {"secretKeyRef": {"secret": "key", "version": "1"}}}],
            ),
            "template.containers[0].envs.KEY: secret key does not exist",
        ),
        (FIELD, {"collection": "runs", "field": "at", "database": "state"}, "database: database state does not exist"),
        (SUBNET, {"name": "sub", "network": "gone", "ipCidrRange": "10.0.0.0/20"}, "network gone does not exist"),
        (
            DNS_ZONE,
            {
                "name": "zone",
                "dnsName": "run.app.",
                "visibility": "private",
                "privateVisibilityConfig": {"networks": [{"networkUrl": "gone"}]},
            },
            "privateVisibilityConfig.networks[0]: network gone does not exist",
        ),
        (
            DNS_RECORD,
            {"name": "run.app.", "type": "A", "managedZone": "gone", "rrdatas": ["199.36.153.8"]},
            "managedZone: zone gone does not exist",
        ),
        (
            "gcp:pubsub/topicIAMMember:TopicIAMMember",
            {
                "topic": "gone",
                "role": "roles/pubsub.publisher",
                "member": f"serviceAccount:push-id@{PROJECT}.iam.gserviceaccount.com",
            },
            "topic: topic gone does not exist",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"project": "p-other", "role": "roles/viewer", "member": "user:a@example.com"},
            "project: project p-other is not this world's project p-test",
        ),
    ],
)
def test_what_names_something_that_does_not_exist_is_refused(
    tmp_path: Path, type_: str, inputs: dict[str, Any], message: str
) -> None:
    """BR-56 and BR-62: a dead-letter topic that is not there."""
    with pytest.raises(ProviderRefused, match=message.replace("[", r"\[").replace("]", r"\]")):
        create(furnished(tmp_path), type_, inputs)


def test_two_resources_cannot_share_a_name(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused, match="jobs already exists"):
        create(furnished(tmp_path), TOPIC, {"name": "jobs"})


def test_a_change_says_what_it_changes_and_whether_it_replaces(tmp_path: Path) -> None:
    world = furnished(tmp_path)
    before = create(world, SUBSCRIPTION, SUBSCRIPTION_INPUTS)

    def difference(path: str, value: Any) -> provider.Difference:
        return provider.diff(before, declared(SUBSCRIPTION, changed(SUBSCRIPTION_INPUTS, path, value), world))

    assert difference("ackDeadlineSeconds", 600) == provider.Difference()
    assert difference("ackDeadlineSeconds", 60) == provider.Difference(("ackDeadlineSeconds",))
    assert difference("filter", 'attributes.a = "b"') == provider.Difference(("filter",), ("filter",))


def test_a_changed_template_is_a_new_revision_and_any_other_change_is_not(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    first = create(world, SERVICE, SERVICE_INPUTS)
    second = provider.update(
        world, first, declared(SERVICE, changed(SERVICE_INPUTS, "template.timeout", "900s"), world)
    )
    third = provider.update(
        world,
        second,
        declared(SERVICE, changed(SERVICE_INPUTS, "template.timeout", "900s") | {"labels": {"a": "b"}}, world),
    )

    revisions = [resource.outputs["latestReadyRevision"] for resource in (first, second, third)]
    assert revisions == ["worker-00001", "worker-00002", "worker-00002"]
    assert third.outputs["labels"] == {"a": "b"}


def test_protected_things_say_why_they_stay(tmp_path: Path) -> None:
    """BR-119."""
    world = new_world(tmp_path)
    database = {"name": "state", "locationId": "europe-west1", "type": "FIRESTORE_NATIVE"}
    protected = [
        create(world, SERVICE, SERVICE_INPUTS),
        create(world, DATABASE, database | {"deleteProtectionState": "DELETE_PROTECTION_ENABLED"}),
        create(world, SECRET, {"secretId": "key", "replication": {"auto": {}}, "deletionProtection": True}),
    ]

    assert all("first" in (provider.delete_refusal(world, resource) or "") for resource in protected)
    assert provider.delete_refusal(world, create(world, TOPIC, {"name": "jobs"})) is None


def test_a_secret_gets_numbered_versions_and_a_known_value_keeps_its_number(tmp_path: Path) -> None:
    """BR-128."""
    world = new_world(tmp_path)
    create(world, SECRET, {"secretId": "key", "replication": {"auto": {}}})
    full = f"projects/{PROJECT}/secrets/key"
    first = create(world, SECRET_VERSION, {"secret": full, "secretData": "sesame"}, secrets=SECRETS)
    second = create(world, SECRET_VERSION, {"secret": full, "secretData": "barley"}, secrets=SECRETS)

    assert (first.outputs["version"], second.outputs["version"]) == ("1", "2")
    assert world.secret_value("key", "1") == "sesame"
    assert world.secret_value(full, "latest") == "barley"
    assert world.secret_value("key", "3") is None
    again = provider.identify(
        SECRET_VERSION,
        {"secret": full, "secretData": "sesame"},
        Surroundings("v", before=world, now=new_world(tmp_path)),
    )
    assert again == first.name


def test_a_secret_is_recognised_in_a_loaded_world_that_does_not_have_it(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    create(world, SECRET, {"secretId": "key", "replication": {"auto": {}}})
    create(world, SECRET_VERSION, {"secret": "key", "secretData": "sesame"}, secrets=SECRETS)
    world.save()

    loaded = World.load(tmp_path)
    assert loaded is not None
    (before,) = loaded.of_type(SECRET_VERSION)
    same = declared(SECRET_VERSION, {"secret": "key", "secretData": "sesame"}, loaded, secrets=SECRETS)

    assert "sesame" not in (tmp_path / "world.json").read_text()
    assert "sesame" not in repr(world.of_type(SECRET_VERSION))
    assert loaded.secret_value("key", "1") is None
    assert same.name == before.name
    assert provider.diff(before, same) == provider.Difference()


def test_fingerprints_of_equal_secrets_differ_and_are_recognised_all_the_same() -> None:
    one, other = (fingerprint({"a": "sesame"}, {"a"}) for _ in range(2))

    assert one != other
    assert recognises(one, {"a": "sesame"}, {"a"})
    assert not recognises(one, {"a": "barley"}, {"a"})
    assert recognises("", {"a": "public"}, set())
    assert not recognises("", {"a": "sesame"}, {"a"}), "what was public is secret now"


def test_functions_answer_for_this_project_only(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    project = "gcp:organizations/getProject:getProject"

    assert provider.invoke(world, project, {"projectId": PROJECT})["number"] == "123456789012"
    with pytest.raises(ProviderRefused, match="project p-other is not this world's project p-test"):
        provider.invoke(world, project, {"projectId": "p-other"})
    with pytest.raises(ProviderRefused, match="the stand-in provider does not answer this function"):
        provider.invoke(world, "gcp:dns/getKeys:getKeys", {})


def test_a_type_that_no_service_acts_on_is_recorded_all_the_same(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    inputs = {"filter": "severity>=ERROR"}

    metric = create(world, "gcp:logging/metric:Metric", inputs)

    assert metric.name == "it"
    assert metric.outputs["id"]
