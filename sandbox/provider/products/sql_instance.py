"""Cloud SQL instances of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, matches, one_of
from sandbox.provider.products.private_services import CONNECTION
from sandbox.world import Resource, World, short_name

SQL_INSTANCE: Final = "gcp:sql/databaseInstance:DatabaseInstance"

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,83}[a-z0-9])?", re.ASCII)
_NAME_RULE: Final = "1 to 85 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_VERSION: Final = re.compile(r"POSTGRES_(?:9_6|1[0-8])", re.ASCII)
_PLUS_SINCE: Final = 16
"""From this version of PostgreSQL on, an instance that names no edition is ENTERPRISE_PLUS."""
_SHARED: Final = ("db-f1-micro", "db-g1-small")
_CUSTOM: Final = re.compile(r"db-custom-(?P<cpus>[0-9]{1,2})-(?P<megabytes>[0-9]{4,6})", re.ASCII)
_PLUS: Final = re.compile(r"db-perf-optimized-N-[0-9]{1,3}|db-c4a-highmem-[0-9]{1,2}", re.ASCII)
_CUSTOM_MEGABYTES: Final = (3840, 921.6, 6656)
"""Custom tiers: least memory of an instance, least and most of each CPU."""
_SSL: Final = ("ALLOW_UNENCRYPTED_AND_ENCRYPTED", "ENCRYPTED_ONLY", "TRUSTED_CLIENT_CERTIFICATE_REQUIRED")


def _instance_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _instance_defaults(inputs: Inputs) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "activationPolicy": "ALWAYS",
        "availabilityType": "ZONAL",
        "deletionProtectionEnabled": False,
        "diskAutoresize": True,
        "diskAutoresizeLimit": 0,
        "diskType": "PD_SSD",
        "edition": _default_edition(str(inputs["databaseVersion"])),
        **inputs.get("settings", {}),
    }
    settings["ipConfiguration"] = {"ipv4Enabled": True, **settings.get("ipConfiguration", {})}
    return {"deletionProtection": True, **inputs, "settings": settings}


def _default_edition(version: str) -> str:
    major = version.removeprefix("POSTGRES_")
    return "ENTERPRISE_PLUS" if major.isdecimal() and int(major) >= _PLUS_SINCE else "ENTERPRISE"


def _instance_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from matches(inputs, "databaseVersion", _VERSION, "a version of PostgreSQL, like POSTGRES_17")
    yield from one_of(inputs, "settings.availabilityType", ("ZONAL", "REGIONAL"))
    yield from one_of(inputs, "settings.edition", ("ENTERPRISE", "ENTERPRISE_PLUS"))
    yield from one_of(inputs, "settings.ipConfiguration.sslMode", _SSL)
    yield from _tier_rules(inputs)
    yield from _backup_rules(inputs)
    address = at(inputs, "settings.ipConfiguration") or {}
    if address.get("ipv4Enabled") is False and not address.get("privateNetwork") and not address.get("pscConfigs"):
        yield Failure("settings.ipConfiguration", "has no address at all; give it a private network")
    limit, size = at(inputs, "settings.diskAutoresizeLimit"), at(inputs, "settings.diskSize") or 10
    if limit and limit < size:
        yield Failure("settings.diskAutoresizeLimit", f"{limit:g} is refused; it must be 0, or at least {size:g} GB")


def _tier_rules(inputs: Inputs) -> Iterator[Failure]:
    tier, edition = at(inputs, "settings.tier"), at(inputs, "settings.edition")
    if tier is None or edition is None:
        return
    custom = _CUSTOM.fullmatch(tier)
    if edition == "ENTERPRISE_PLUS":
        if not _PLUS.fullmatch(tier):
            yield Failure("settings.tier", f"{tier!r} is refused; edition ENTERPRISE_PLUS has db-perf-optimized-N-CPUS")
    elif custom is None:
        if tier not in _SHARED:
            rule = f"edition ENTERPRISE has {', '.join(_SHARED)} and db-custom-CPUS-MEGABYTES"
            yield Failure("settings.tier", f"{tier!r} is refused; {rule}")
    else:
        yield from _custom_rules(tier, int(custom["cpus"]), int(custom["megabytes"]))


def _custom_rules(tier: str, cpus: int, megabytes: int) -> Iterator[Failure]:
    least, low, high = _CUSTOM_MEGABYTES
    if cpus != 1 and (cpus % 2 or not 2 <= cpus <= 96):
        yield Failure("settings.tier", f"{tier!r} is refused; CPUs must be 1, or an even number up to 96")
    elif megabytes % 256 or megabytes < least or not low * cpus <= megabytes <= high * cpus:
        yield Failure(
            "settings.tier",
            f"{tier!r} is refused; memory must be a multiple of 256, at least {least}, and 0.9 to 6.5 GB for each CPU",
        )


def _backup_rules(inputs: Inputs) -> Iterator[Failure]:
    backups: Mapping[str, Any] = at(inputs, "settings.backupConfiguration") or {}
    enabled, to_a_point = bool(backups.get("enabled")), bool(backups.get("pointInTimeRecoveryEnabled"))
    if to_a_point and not enabled:
        yield Failure("settings.backupConfiguration.pointInTimeRecoveryEnabled", "needs backups to be enabled")
    if at(inputs, "settings.availabilityType") == "REGIONAL" and not (enabled and to_a_point):
        yield Failure("settings.availabilityType", "REGIONAL needs backups and point-in-time recovery")
    place = "settings.backupConfiguration.backupRetentionSettings.retainedBackups"
    yield from in_range(inputs, place, 1, 365)
    days = "settings.backupConfiguration.transactionLogRetentionDays"
    yield from in_range(inputs, days, 1, 35 if at(inputs, "settings.edition") == "ENTERPRISE_PLUS" else 7)
    if (at(inputs, days) or 0) > (at(inputs, place) or 365):
        yield Failure(days, "is more than the number of backups that are kept")


def _instance_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    network = at(inputs, "settings.ipConfiguration.privateNetwork")
    if not network:
        return
    connected = {short_name(one.inputs["network"]) for one in world.of_type(CONNECTION)}
    if short_name(network) not in connected:
        place = "settings.ipConfiguration.privateNetwork"
        yield Failure(place, f"network {short_name(network)} has no private connection to Google's services")


def _instance_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    outputs = {
        "id": name,
        "connectionName": f"{inputs['project']}:{inputs['region']}:{name}",
        "selfLink": f"https://sqladmin.googleapis.com/sql/v1beta4/projects/{inputs['project']}/instances/{name}",
    }
    if at(inputs, "settings.ipConfiguration.privateNetwork"):
        outputs |= {"privateIpAddress": "10.64.0.3", "firstIpAddress": "10.64.0.3"}
    return outputs


def _instance_guard(resource: Resource) -> str | None:
    if resource.inputs["deletionProtection"]:
        return "deletionProtection is true; deploy it as false first"
    if resource.inputs["settings"]["deletionProtectionEnabled"]:
        return "settings.deletionProtectionEnabled is true; deploy it as false first"
    return None


BEHAVIOURS: Final = {
    SQL_INSTANCE: Behaviour(
        name=_instance_name,
        auto_name="name",
        computed=_instance_computed,
        defaults=_instance_defaults,
        rules=_instance_rules,
        missing=_instance_missing,
        immutable=frozenset({"name", "region", "project", "encryptionKeyName"}),
        guard=_instance_guard,
        retires_name=True,
    ),
}
