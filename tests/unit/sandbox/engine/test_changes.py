"""What a run creates, changes, keeps and deletes, as the real engine would."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from sandbox.engine.registration import make_urn
from sandbox.world import SUBSCRIPTION, TOPIC, World
from tests.support.programs import TOPIC_URN, Pipe, lines_of, nothing, one_topic, run, two_pipes


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first, second = run(two_pipes, tmp_path), run(two_pipes, tmp_path)

    assert len(first.created) == 8
    assert (first.updated, first.deleted, first.unchanged) == ((), (), ())
    assert sorted(second.unchanged) == sorted(first.created)
    assert (second.created, second.updated, second.replaced, second.deleted) == ((), (), (), ())


def test_what_others_depend_on_is_created_before_them_in_every_run(tmp_path: Path) -> None:
    runs = [run(two_pipes, tmp_path / str(number)) for number in range(5)]
    assert len({frozenset(deployment.created) for deployment in runs}) == 1
    for deployment in runs:
        place = {urn: number for number, urn in enumerate(deployment.created)}
        for resource in deployment.world:
            assert all(place[urn] < place[resource.urn] for urn in resource.dependencies if urn in place)


def test_urns_have_the_types_of_all_ancestors_as_the_real_engine_forms_them(tmp_path: Path) -> None:
    class Outer(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("test:index:Outer", "outer", {})
            Pipe("inner", opts=pulumi.ResourceOptions(parent=self))

    def program() -> None:
        one_topic()
        Outer()

    created = run(program, tmp_path).created

    assert TOPIC_URN in created
    assert "urn:pulumi:test::holdfast::test:index:Outer$test:index:Pipe$gcp:pubsub/topic:Topic::inner-topic" in created
    stack = make_urn("test", "holdfast", "", "pulumi:pulumi:Stack", "holdfast-test")
    assert stack == "urn:pulumi:test::holdfast::pulumi:pulumi:Stack::holdfast-test"
    assert make_urn("test", "holdfast", stack, "gcp:pubsub/topic:Topic", "jobs") == TOPIC_URN


def test_one_changed_value_updates_what_has_it(tmp_path: Path) -> None:
    run(two_pipes, tmp_path)
    second = run(two_pipes, tmp_path, {"ack": "90"})

    assert sorted(urn.rpartition("::")[2] for urn in second.updated) == ["first-sub", "second-sub"]
    assert len(second.unchanged) == 6
    resource = second.world.find(SUBSCRIPTION, "first-sub")
    assert resource is not None
    assert resource.inputs["ackDeadlineSeconds"] == 90


def test_what_is_no_longer_declared_is_deleted_dependents_first(tmp_path: Path) -> None:
    run(two_pipes, tmp_path)
    second = run(two_pipes, tmp_path, {"one": "true"})
    deleted = [urn.rpartition("::")[2] for urn in second.deleted]

    assert sorted(deleted) == ["second-account", "second-grant", "second-sub", "second-topic"]
    assert deleted.index("second-sub") < deleted.index("second-topic")
    assert deleted.index("second-grant") < deleted.index("second-topic")
    assert deleted.index("second-grant") < deleted.index("second-account")
    assert second.world.find(TOPIC, "second-topic") is None
    assert len(second.world) == 4


def test_a_renamed_component_keeps_its_resources(tmp_path: Path) -> None:
    """The world is keyed by type and physical name, so that data outlives a refactoring."""

    def renamed() -> None:
        gcp.pubsub.Topic("other", name="jobs")

    run(one_topic, tmp_path)
    second = run(renamed, tmp_path)

    assert (second.created, second.deleted) == ((), ())
    assert second.unchanged == (TOPIC_URN.replace("::jobs", "::other"),)


def test_an_immutable_input_replaces(tmp_path: Path) -> None:
    def filtered() -> None:
        topic = gcp.pubsub.Topic("jobs", name="jobs")
        gcp.pubsub.Subscription("sub", name="sub", topic=topic.id, filter=pulumi.Config().get("filter"))

    run(filtered, tmp_path)
    second = run(filtered, tmp_path, {"filter": 'attributes.a = "b"'})

    assert [urn.rpartition("::")[2] for urn in second.replaced] == ["sub"]
    assert (second.created, second.updated, second.deleted) == ((), (), ())


def test_protected_resources_are_not_deleted_and_not_replaced(tmp_path: Path) -> None:
    def protected() -> None:
        topic = gcp.pubsub.Topic("jobs", name="jobs", opts=pulumi.ResourceOptions(protect=True))
        gcp.pubsub.Subscription(
            "sub",
            name="sub",
            topic=topic.id,
            filter=pulumi.Config().get("filter"),
            opts=pulumi.ResourceOptions(protect=True),
        )

    run(protected, tmp_path)

    assert [line.partition(" (")[0] for line in lines_of(nothing, tmp_path)] == [
        "jobs",
        "sub",
    ]
    (line,) = lines_of(protected, tmp_path, {"filter": 'attributes.a = "b"'})
    assert line.endswith("a change of filter replaces it, and it is protected; deploy it with protect off first")


def test_what_the_platform_protects_is_not_deleted(tmp_path: Path) -> None:
    """BR-119."""

    def database() -> None:
        gcp.firestore.Database(
            "state",
            name="state",
            location_id="europe-west1",
            type="FIRESTORE_NATIVE",
            delete_protection_state="DELETE_PROTECTION_ENABLED",
        )

    run(database, tmp_path)
    (line,) = lines_of(nothing, tmp_path)
    assert "is no longer declared, but deleteProtectionState is DELETE_PROTECTION_ENABLED" in line


def test_a_network_goes_with_its_peering_and_stays_with_one_that_was_left_behind(tmp_path: Path) -> None:
    def connected() -> None:
        network = gcp.compute.Network("inside", name="inside", auto_create_subnetworks=False)
        addresses = gcp.compute.GlobalAddress(
            "range", name="range", purpose="VPC_PEERING", address_type="INTERNAL", prefix_length=16, network=network.id
        )
        gcp.servicenetworking.Connection(
            "services",
            network=network.id,
            service="servicenetworking.googleapis.com",
            reserved_peering_ranges=[addresses.name],
            deletion_policy=pulumi.Config().require("policy"),
        )

    run(connected, tmp_path / "removed", {"policy": "REMOVE_PEERING"})
    assert len(run(nothing, tmp_path / "removed").world) == 0

    run(connected, tmp_path / "left", {"policy": "ABANDON"})
    (line,) = lines_of(nothing, tmp_path / "left")
    assert "but the peering of servicenetworking.googleapis.com still uses it, and has to go first" in line


def test_ignored_changes_are_ignored(tmp_path: Path) -> None:
    def labelled() -> None:
        gcp.pubsub.Topic(
            "jobs",
            name="jobs",
            labels={"by": pulumi.Config().require("by")},
            opts=pulumi.ResourceOptions(ignore_changes=["labels"]),
        )

    run(labelled, tmp_path, {"by": "one"})
    second = run(labelled, tmp_path, {"by": "other"})

    assert second.unchanged == (TOPIC_URN,)
    resource = second.world.find(TOPIC, "jobs")
    assert resource is not None
    assert resource.inputs["labels"] == {"by": "one"}


def test_the_world_that_the_caller_has_counts_more_than_the_saved_one(tmp_path: Path) -> None:
    run(one_topic, tmp_path)
    empty = World("p-test", "123456789012", "europe-west1", tmp_path)

    assert run(one_topic, tmp_path, before=empty).created == (TOPIC_URN,)
    assert len(empty) == 0
