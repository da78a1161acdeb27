"""What Cloud SQL and private connections to it refuse although the SDK does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.provider import provider
from sandbox.provider.faults import ProviderRefused
from sandbox.provider.products.private_services import CONNECTION, GLOBAL_ADDRESS
from sandbox.provider.products.sql import SQL_DATABASE, SQL_USER
from sandbox.provider.products.sql_instance import SQL_INSTANCE
from sandbox.world import ACCOUNT, World
from tests.support.provider import PROJECT, changed, checked, create, declared, failures, new_world

NETWORK = f"projects/{PROJECT}/global/networks/inside"
BACKUPS = {
    "enabled": True,
    "pointInTimeRecoveryEnabled": True,
    "transactionLogRetentionDays": 7,
    "backupRetentionSettings": {"retainedBackups": 7},
}
INSTANCE: dict[str, Any] = {
    "name": "usage",
    "databaseVersion": "POSTGRES_17",
    "deletionProtection": False,
    "settings": {
        "tier": "db-custom-1-3840",
        "edition": "ENTERPRISE",
        "databaseFlags": [{"name": "cloudsql.iam_authentication", "value": "on"}],
        "ipConfiguration": {"ipv4Enabled": False, "privateNetwork": NETWORK, "sslMode": "ENCRYPTED_ONLY"},
        "backupConfiguration": BACKUPS,
    },
}
RANGE: dict[str, Any] = {
    "name": "services", "purpose": "VPC_PEERING", "addressType": "INTERNAL", "prefixLength": 16, "network": NETWORK,
}  # fmt: skip
CONNECTION_INPUTS: dict[str, Any] = {
    "network": NETWORK, "service": "servicenetworking.googleapis.com", "reservedPeeringRanges": ["services"],
}  # fmt: skip
USER: dict[str, Any] = {
    "name": f"worker-id@{PROJECT}.iam", "instance": "usage", "type": "CLOUD_IAM_SERVICE_ACCOUNT",
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With a private connection and an instance."""
    made = new_world(tmp_path)
    create(made, GLOBAL_ADDRESS, RANGE)
    create(made, CONNECTION, CONNECTION_INPUTS)
    create(made, SQL_INSTANCE, INSTANCE)
    return made


@pytest.mark.parametrize(
    ("path", "value", "failure"),
    [
        ("name", "Usage", "name: 'Usage' is refused"),
        ("databaseVersion", "POSTGRES_8", "databaseVersion: 'POSTGRES_8' is refused"),
        ("settings.tier", "db-n1-standard-1", "settings.tier: 'db-n1-standard-1' is refused; edition ENTERPRISE has"),
        ("settings.tier", "db-custom-3-3840", "CPUs must be 1, or an even number up to 96"),
        ("settings.tier", "db-custom-1-3841", "memory must be a multiple of 256"),
        ("settings.tier", "db-custom-1-8192", "0.9 to 6.5 GB for each CPU"),
        ("settings.edition", ..., "edition ENTERPRISE_PLUS has db-perf-optimized-N-CPUS"),
        ("settings.availabilityType", "HIGH", "settings.availabilityType: 'HIGH' is refused"),
        ("settings.ipConfiguration.privateNetwork", ..., "settings.ipConfiguration: has no address at all"),
        ("settings.ipConfiguration.sslMode", "ON", "settings.ipConfiguration.sslMode: 'ON' is refused"),
        ("settings.diskAutoresizeLimit", 9, "diskAutoresizeLimit: 9 is refused; it must be 0, or at least 10 GB"),
        ("settings.backupConfiguration.enabled", False, "needs backups to be enabled"),
        ("settings.backupConfiguration.transactionLogRetentionDays", 8, "8 is refused; it must be 1 to 7"),
        (
            "settings.backupConfiguration.backupRetentionSettings.retainedBackups",
            3,
            "transactionLogRetentionDays: is more than the number of backups that are kept",
        ),
    ],
)
def test_an_instance_that_cloud_sql_refuses(path: str, value: Any, failure: str) -> None:
    found = failures(SQL_INSTANCE, changed(INSTANCE, path, value))
    assert any(failure in one for one in found), found


def test_a_standby_needs_backups_and_a_way_back() -> None:
    inputs = changed(changed(INSTANCE, "settings.availabilityType", "REGIONAL"), "settings.backupConfiguration", ...)
    assert failures(SQL_INSTANCE, inputs) == [
        "settings.availabilityType: REGIONAL needs backups and point-in-time recovery"
    ]


def test_an_instance_gets_cloud_sqls_defaults() -> None:
    """BR-119: protected, and open to the internet, where nothing is said."""
    once = checked(SQL_INSTANCE, {"databaseVersion": "POSTGRES_15", "settings": {"tier": "db-f1-micro"}})

    assert once["deletionProtection"] is True
    assert once["settings"]["ipConfiguration"] == {"ipv4Enabled": True}
    assert once["settings"]["edition"] == "ENTERPRISE"
    assert checked(SQL_INSTANCE, once) == once


def test_a_private_address_needs_the_networks_connection(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused, match="network inside has no private connection to Google's services"):
        create(new_world(tmp_path), SQL_INSTANCE, INSTANCE)


@pytest.mark.parametrize("path", ["deletionProtection", "settings.deletionProtectionEnabled"])
def test_either_protection_keeps_an_instance(world: World, path: str) -> None:
    """BR-119."""
    kept = create(world, SQL_INSTANCE, changed({**INSTANCE, "name": "kept"}, path, value=True))
    assert provider.delete_refusal(world, kept) == f"{path} is true; deploy it as false first"


def test_a_deleted_instances_name_stays_taken_also_in_a_world_that_is_loaded_again(world: World) -> None:
    gone = world.find(SQL_INSTANCE, "usage")
    assert gone is not None
    world.remove(SQL_INSTANCE, "usage")
    provider.retire(world, gone)
    world.save()
    loaded = World.load(world.state_dir)
    assert loaded is not None

    with pytest.raises(ProviderRefused, match="its name cannot be used again for a week; use another"):
        create(loaded, SQL_INSTANCE, INSTANCE)
    create(loaded, SQL_INSTANCE, {**INSTANCE, "name": "usage-2"})


def test_another_region_replaces_an_instance_and_another_tier_does_not(world: World) -> None:
    before = world.find(SQL_INSTANCE, "usage")
    assert before is not None

    def difference(path: str, value: Any) -> provider.Difference:
        return provider.diff(before, declared(SQL_INSTANCE, changed(INSTANCE, path, value), world))

    assert difference("region", "us-central1").replaces == ("region",)
    assert difference("settings.tier", "db-f1-micro") == provider.Difference(("settings",))


@pytest.mark.parametrize(
    ("type_", "inputs", "failure"),
    [
        (SQL_DATABASE, {"name": "postgres", "instance": "usage"}, "postgres is a database of the platform's own"),
        (SQL_DATABASE, {"name": "x" * 64, "instance": "usage"}, "name: is longer than 63 bytes"),
        (SQL_DATABASE, {"name": "usage", "instance": "usage", "charset": "LATIN1"}, "charset: 'LATIN1' is refused"),
        (SQL_USER, {**USER, "name": f"{USER['name']}.gserviceaccount.com"}, "without .gserviceaccount.com"),
        (SQL_USER, {**USER, "password": "sesame"}, "password: is refused; a user of this type has no password"),
        (SQL_USER, {**USER, "type": "IAM"}, "type: 'IAM' is refused"),
        (GLOBAL_ADDRESS, changed(RANGE, "prefixLength", 30), "prefixLength: 30 is refused; it must be 8 to 29"),
        (GLOBAL_ADDRESS, changed(RANGE, "network", ...), "VPC_PEERING needs addressType INTERNAL, a network"),
        (CONNECTION, {**CONNECTION_INPUTS, "reservedPeeringRanges": []}, "reservedPeeringRanges: is empty"),
        (CONNECTION, {**CONNECTION_INPUTS, "service": "sql"}, "service: 'sql' is refused"),
    ],
)
def test_what_belongs_to_an_instance_and_is_refused(type_: str, inputs: dict[str, Any], failure: str) -> None:
    found = failures(type_, inputs)
    assert any(failure in one for one in found), found
    assert not any("sesame" in one for one in found)


def test_a_user_needs_its_instance_the_flag_and_its_account(world: World) -> None:
    with pytest.raises(ProviderRefused, match="instance gone does not exist"):
        create(world, SQL_USER, {**USER, "instance": "gone"})
    with pytest.raises(ProviderRefused, match=f"service account worker-id@{PROJECT}.iam.* does not exist"):
        create(world, SQL_USER, USER)
    create(world, ACCOUNT, {"accountId": "worker-id"})
    create(world, SQL_USER, USER)
    create(world, SQL_INSTANCE, changed({**INSTANCE, "name": "closed"}, "settings.databaseFlags", ...))
    with pytest.raises(ProviderRefused, match="instance closed does not take identities"):
        create(world, SQL_USER, {**USER, "instance": "closed"})


def test_a_range_that_is_not_there_connects_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused, match="address range services does not exist"):
        create(new_world(tmp_path), CONNECTION, CONNECTION_INPUTS)
