"""How a caller reaches a service that admits traffic from inside only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..facts import Facts
from ..properties import Properties
from ..resource import DNS_RECORD, DNS_ZONE, SUBNETWORK, Resource
from ..rule import Context, Rule, rule
from ..service import Service


@rule(
    "X04",
    "Who calls an internal service sends its traffic through the network",
    over=lambda facts: facts.services,
    breaks="the call counts as coming from outside and is answered 404",
    fix=(
        "Give the caller VPC access through a subnet with privateIpGoogleAccess, with ALL_TRAFFIC, or with "
        "PRIVATE_RANGES_ONLY and a private DNS zone whose records send *.run.app to private addresses"
    ),
)
def x04(service: Service, context: Context) -> Iterator[str]:
    """Addresses in the environment say whom a service calls."""
    for called in _called(context.facts, service):
        if called.is_internal and not _covered(context.facts, service):
            yield f"it calls {called.name}, which is internal, but its traffic leaves outside of the network"


def _called(facts: Facts, service: Service) -> list[Service]:
    found = []
    for variable in service.variables:
        text = variable.properties.known_text("value")
        called = facts.service_at(text) if text and text.startswith("https://") else None
        if called is not None and called.urn != service.urn and called not in found:
            found.append(called)
    return found


def _covered(facts: Facts, service: Service) -> bool:
    access = service.properties.section("template", "vpcAccess")
    if access is None or not (access.has("networkInterfaces") or access.has("connector")):
        return False
    if any(not subnet.properties.flag("privateIpGoogleAccess") for subnet in _subnets(facts, service, access)):
        return False
    if access.text("egress") == "ALL_TRAFFIC":
        return True
    zones = [zone for zone in facts.of(DNS_ZONE) if zone.properties.known_text("dnsName") == "run.app."]
    return any(
        _answers(facts, zone, name) for zone in zones for name in _records(facts, zone) if name.endswith(".run.app.")
    )


def _subnets(facts: Facts, service: Service, access: Properties) -> list[Resource]:
    """Declared subnets through which a service sends its traffic."""
    named = {(face.known_text("subnetwork") or "").rpartition("/")[2] for face in access.sections("networkInterfaces")}
    return [
        subnet
        for subnet in facts.of(SUBNETWORK)
        if subnet.urn in service.resource.came_from("template") or subnet.properties.known_text("name") in named
    ]


def _records(facts: Facts, zone: Resource) -> dict[str, Properties]:
    """Records of a zone by their names."""
    name = zone.properties.known_text("name")
    return {
        record.properties.known_text("name") or "": record.properties
        for record in facts.of(DNS_RECORD)
        if zone.urn in record.came_from("managedZone")
        or (name is not None and record.properties.known_text("managedZone") == name)
    }


def _answers(facts: Facts, zone: Resource, name: str) -> bool:
    """Whether a name of a zone leads to addresses: by itself, or by the one name that it stands for."""
    records = _records(facts, zone)
    record = records.get(name)
    if record is not None and record.text("type") == "CNAME":
        record = next((records.get(other) for other in record.texts("rrdatas")), None)
    return record is not None and record.text("type") in {"A", "AAAA"} and record.has("rrdatas")


RULES: Final[tuple[Rule, ...]] = (x04,)
