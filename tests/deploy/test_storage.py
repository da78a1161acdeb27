"""What a stack keeps: the sink of dead letters, the bucket of users' files, the usage database.

Does not cover what is inside the database, nor who may read the buckets: no service uses either yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi_gcp as gcp
import pytest

from infra.components.network import Network, NetworkArgs
from infra.components.private_services import PrivateServices, PrivateServicesArgs
from infra.components.usage_database import UsageDatabase, UsageDatabaseArgs, user_of
from infra.sections.usage_database import UsageDatabasePlan
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.embedded import realise
from sandbox.provider.products.sql import SQL_DATABASE, SQL_USER
from sandbox.provider.products.sql_instance import SQL_INSTANCE
from sandbox.provider.products.storage import BUCKET, NOTIFICATION
from sandbox.world import ACCOUNT, INDEX, SUBSCRIPTION
from tests.support.stacks import NUMBER, PROJECT, REGION, loaded, realised, refused, stack_values

SECTIONS: dict[str, Any] = {"content": {}, "usage_database": {}}
AGENT = f"serviceAccount:service-{NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
STORAGE_AGENT = f"serviceAccount:service-{NUMBER}@gs-project-accounts.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("storage"), **SECTIONS)


def inputs_of(stack: Deployment, type_: str, name: str) -> dict[str, Any]:
    resource = stack.world.find(type_, name)
    assert resource is not None, f"{type_} {name} is not declared"
    return dict(resource.inputs)


def order_of(stack: Deployment) -> dict[str, int]:
    return {urn.rpartition("$")[2]: position for position, urn in enumerate(stack.created)}


def members(stack: Deployment) -> set[tuple[str, str]]:
    """Role and member of every grant of this module's parts."""
    parts = ("letters-", "content-", "usage-")
    return {
        (one.inputs["role"], one.inputs["member"])
        for one in stack.world
        if "member" in one.inputs and one.urn.rpartition("::")[2].startswith(parts)
    }


def test_every_bucket_is_private_and_in_the_stacks_region(stack: Deployment) -> None:
    """BR-138."""
    buckets = stack.world.of_type(BUCKET)

    assert {one.name for one in buckets} == {f"{PROJECT}-holdfast-dead-letters", f"{PROJECT}-holdfast-content"}
    for one in buckets:
        assert one.inputs["location"] == REGION.upper()
        assert one.inputs["uniformBucketLevelAccess"] is True
        assert one.inputs["publicAccessPrevention"] == "enforced"
        assert one.inputs["versioning"] == {"enabled": False}
        assert set(one.inputs["labels"]) == {"product", "stack", "part"}
    assert inputs_of(stack, SQL_INSTANCE, "holdfast-usage-1")["region"] == REGION


def test_dead_letters_are_kept_as_whole_messages_for_as_long_as_the_stack_says(tmp_path: Path) -> None:
    stack = realised(tmp_path, dead_letter_sink={"kept_days": 90})
    bucket = inputs_of(stack, BUCKET, f"{PROJECT}-holdfast-dead-letters")
    sink = inputs_of(stack, SUBSCRIPTION, "holdfast-execution-dead-letters-sink")

    assert bucket["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 90}}]
    assert sink["topic"] == f"projects/{PROJECT}/topics/holdfast-execution-dead-letters"
    assert sink["expirationPolicy"] == {"ttl": ""}
    assert sink["messageRetentionDuration"] == "2678400s"
    config = sink["cloudStorageConfig"]
    assert (config["bucket"], config["filenamePrefix"]) == (f"{PROJECT}-holdfast-dead-letters", "execution/")
    assert config["avroConfig"] == {"writeMetadata": True}
    assert int(config["maxDuration"].removesuffix("s")) <= sink["ackDeadlineSeconds"]


def test_the_agent_may_write_before_the_sink_is_there_and_the_sink_is_there_before_anyone_publishes(
    stack: Deployment,
) -> None:
    order = order_of(stack)
    sink = order["gcp:pubsub/subscription:Subscription::execution-dead-letters-sink"]
    grants = [
        order[f"gcp:storage/bucketIAMMember:BucketIAMMember::letters-agent-{part}"] for part in ("creates", "reads")
    ]

    assert max(grants) < sink < order["gcp:pubsub/topicIAMMember:TopicIAMMember::api-publishes-execution"]
    assert {("roles/storage.objectCreator", AGENT), ("roles/storage.legacyBucketReader", AGENT)} <= members(stack)


def test_what_google_checks_at_once_waits_for_the_indexes_while_the_grants_come_into_force(stack: Deployment) -> None:
    indexes = {one.urn for one in stack.world.of_type(INDEX)}
    notifications = stack.world.of_type(NOTIFICATION)
    sink = stack.world.find(SUBSCRIPTION, "holdfast-execution-dead-letters-sink")
    assert sink is not None
    assert indexes
    assert notifications
    for waiting in (sink, *notifications):
        assert indexes <= set(waiting.dependencies), waiting.name


def test_events_of_users_files_are_announced_once_for_each_prefix_and_kept(stack: Deployment) -> None:
    """BR-77, BR-83 and BR-87."""
    found = {
        one.inputs["objectNamePrefix"]: (one.inputs["payloadFormat"], one.inputs["eventTypes"])
        for one in stack.world.of_type(NOTIFICATION)
    }
    both = ("JSON_API_V1", ["OBJECT_FINALIZE", "OBJECT_DELETE"])
    assert found == {"apps/": both, "users/": both, "media/": ("JSON_API_V1", ["OBJECT_FINALIZE"])}

    order = order_of(stack)
    grant = order["gcp:pubsub/topicIAMMember:TopicIAMMember::content-storage-publishes"]
    keeping = order["gcp:pubsub/subscription:Subscription::content-objects"]
    first = min(order[urn] for urn in order if urn.startswith("gcp:storage/notification"))
    assert max(grant, keeping) < first
    assert ("roles/pubsub.publisher", STORAGE_AGENT) in members(stack)
    kept = inputs_of(stack, SUBSCRIPTION, "holdfast-objects")
    assert (kept["expirationPolicy"], kept["messageRetentionDuration"]) == ({"ttl": ""}, "2678400s")


def test_the_usage_database_has_no_public_address_no_password_and_a_way_back(stack: Deployment) -> None:
    """BR-126."""
    instance = inputs_of(stack, SQL_INSTANCE, "holdfast-usage-1")
    settings = instance["settings"]

    assert "rootPassword" not in instance
    assert {(flag["name"], flag["value"]) for flag in settings["databaseFlags"]} == {
        ("cloudsql.iam_authentication", "on")
    }
    assert settings["ipConfiguration"]["ipv4Enabled"] is False
    assert settings["ipConfiguration"]["sslMode"] == "ENCRYPTED_ONLY"
    assert settings["ipConfiguration"]["privateNetwork"].endswith("networks/holdfast-network")
    assert settings["backupConfiguration"]["pointInTimeRecoveryEnabled"] is True
    assert settings["diskAutoresizeLimit"] == 50
    assert [one.name for one in stack.world.of_type(SQL_DATABASE)] == ["holdfast-usage-1/usage"]
    assert stack.world.of_type(SQL_USER) == [], "no worker uses it yet, so nobody may log in"
    assert not {role for role, _ in members(stack) if "cloudsql" in role}


def test_an_account_that_is_given_gets_a_user_without_suffix_and_two_roles(tmp_path: Path) -> None:
    settings = loaded(usage_database={})

    def program() -> None:
        account = gcp.serviceaccount.Account("files-account", account_id="holdfast-files")
        network = Network("network", NetworkArgs(settings=settings))
        services = PrivateServices("services", PrivateServicesArgs(settings=settings, network=network.network))
        args = UsageDatabaseArgs(
            settings=settings, plan=UsageDatabasePlan(), services=services, accounts={"files": account}
        )
        UsageDatabase("usage", args)

    values = stack_values()
    secrets = {"holdfast:signing_key": values.pop("holdfast:signing_key")}
    stack = realise(values, secrets, stack="test", world_dir=tmp_path, program=program)
    (user,) = stack.world.of_type(SQL_USER)

    assert user.inputs["name"] == f"holdfast-files@{PROJECT}.iam"
    assert user.inputs["type"] == "CLOUD_IAM_SERVICE_ACCOUNT"
    member = f"serviceAccount:holdfast-files@{PROJECT}.iam.gserviceaccount.com"
    assert members(stack) == {("roles/cloudsql.client", member), ("roles/cloudsql.instanceUser", member)}
    assert [one.name for one in stack.world.of_type(ACCOUNT)] == [member.removeprefix("serviceAccount:")]
    assert user_of("someone@example.com") == "someone@example.com"


@pytest.mark.parametrize("protected", [True, False])
def test_protection_is_explicit_on_everything_that_holds_data(tmp_path: Path, *, protected: bool) -> None:
    """BR-119."""
    stack = realised(tmp_path, deletion_protection=str(protected).lower(), **SECTIONS)
    instance = inputs_of(stack, SQL_INSTANCE, "holdfast-usage-1")

    assert instance["deletionProtection"] is protected
    assert instance["settings"]["deletionProtectionEnabled"] is protected
    for one in [*stack.world.of_type(BUCKET), *stack.world.of_type(SQL_INSTANCE)]:
        assert one.protect is protected
    for one in stack.world.of_type(BUCKET):
        assert one.inputs["forceDestroy"] is not protected
        assert one.inputs["deletionPolicy"] == ("PREVENT" if protected else "DELETE")


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first, second = realised(tmp_path, **SECTIONS), realised(tmp_path, **SECTIONS)
    assert sorted(second.unchanged) == sorted(first.created)


def test_names_follow_keys_so_that_leaving_one_section_out_touches_no_other(tmp_path: Path) -> None:
    """BR-133."""
    realised(tmp_path, **SECTIONS)
    second = realised(tmp_path, content={})

    assert (second.created, second.updated, second.replaced) == ((), (), ())
    assert any("usage-instance" in urn for urn in second.deleted)
    with pytest.raises(DeploymentFailed, match="its name cannot be used again for a week"):
        realised(tmp_path, **SECTIONS)
    again = realised(tmp_path, content={}, usage_database={"generation": 2})
    assert again.world.find(SQL_INSTANCE, "holdfast-usage-2") is not None


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"dead_letter_sink": {"kept_days": 30}}, "must be a whole number, 31 to 3650 days"),
        ({"content": {"recovery_days": 6}}, "must be a whole number, 7 to 90 days"),
        ({"content": {"retention": 6}}, "holdfast:content.retention is no setting"),
        ({"usage_database": {"tier": "large"}}, "must be db-f1-micro, db-g1-small or db-custom-CPUS-MEGABYTES"),
        ({"usage_database": {"regional": "maybe"}}, "must be true or false"),
        ({"usage_database": {"kept_backups": 1}}, "must be a whole number, 7 to 365"),
    ],
)
def test_a_value_that_does_not_hold_says_what_would(changes: dict[str, Any], line: str) -> None:
    (found,) = refused(**changes)
    assert line in found


def test_a_tier_that_cloud_sql_does_not_have_is_refused_before_anything_exists(tmp_path: Path) -> None:
    with pytest.raises(DeploymentFailed, match="memory must be a multiple of 256"):
        realised(tmp_path, usage_database={"tier": "db-custom-1-3841"})


def test_invokes_and_children_use_the_provider_of_their_component(stack: Deployment) -> None:
    """BR-125."""
    parts = ("DeadLetterSink$", "ContentBucket$", "UsageDatabase$", "PrivateServices$")
    mine = [one.urn for one in stack.registrations if one.type in {BUCKET, NOTIFICATION, SQL_INSTANCE, SQL_DATABASE}]
    assert all(any(part in urn for part in parts) for urn in mine)
