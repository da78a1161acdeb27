"""Whether a service's calls to other services leave through its VPC, as the declared network has it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from sandbox.provider.limits import at
from sandbox.world import DNS_RECORD, DNS_ZONE, SUBNET, Resource, World, short_name

_DOMAIN: Final = "run.app."
_PRIVATE: Final = (IPv4Network("199.36.153.4/30"), IPv4Network("199.36.153.8/30"))
"""Google's own private addresses, which Cloud Run counts as private ranges."""


def reaches_services(vpc: Mapping[str, Any], world: World) -> bool:
    """Whether a call of `run.app` counts as coming from inside.

    It does where all traffic goes through the VPC, or where a private zone of its network leads to a private address;
    in both cases only from a subnet with Private Google Access. What the program does not declare is taken to be right.
    """
    interfaces = vpc.get("networkInterfaces") or ()
    if not interfaces and not vpc.get("connector"):
        return False
    if not all(_has_google_access(world.find(SUBNET, str(each.get("subnetwork")))) for each in interfaces):
        return False
    if vpc.get("egress") == "ALL_TRAFFIC":
        return True
    networks = {short_name(str(each["network"])) for each in interfaces if each.get("network")}
    return any(_leads_inside(zone, networks, world) for zone in world.of_type(DNS_ZONE))


def _has_google_access(subnet: Resource | None) -> bool:
    return subnet is None or bool(subnet.inputs.get("privateIpGoogleAccess"))


def _leads_inside(zone: Resource, networks: set[str], world: World) -> bool:
    if zone.inputs.get("visibility") != "private" or zone.inputs.get("dnsName") != _DOMAIN:
        return False
    seeing = {short_name(str(each["networkUrl"])) for each in at(zone.inputs, "privateVisibilityConfig.networks") or ()}
    if networks and networks.isdisjoint(seeing):
        return False
    records = {
        str(record.inputs["name"]): record
        for record in world.of_type(DNS_RECORD)
        if short_name(str(record.inputs["managedZone"])) == zone.name
    }
    found = records.get(f"*.{_DOMAIN}")
    if found is not None and found.inputs["type"] == "CNAME":
        found = records.get(str(found.inputs["rrdatas"][0]))
    return found is not None and found.inputs["type"] == "A" and all(map(_is_private, found.inputs["rrdatas"]))


def _is_private(address: str) -> bool:
    return any(IPv4Address(address) in block for block in _PRIVATE)
