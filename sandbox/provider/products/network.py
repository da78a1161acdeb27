"""Networks, their subnets, and the private zones that they see."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, matches, one_of
from sandbox.provider.products.private_services import CONNECTION
from sandbox.provider.unknown import is_unknown
from sandbox.world import DNS_RECORD, DNS_ZONE, NETWORK, SUBNET, Resource, World, short_name

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME_RULE: Final = "1 to 63 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_DOMAIN: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)+", re.ASCII | re.IGNORECASE)
_RECORD: Final = re.compile(rf"(?:\*\.)?{_DOMAIN.pattern}", re.ASCII | re.IGNORECASE)
_DOMAIN_RULE: Final = "a domain with a dot at its end"
_WIDEST, _NARROWEST = 8, 29
"""Prefix lengths of a subnet's range."""


def _named(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _network_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/global/networks/{name}"
    return {"id": full, "selfLink": f"https://www.googleapis.com/compute/v1/{full}"}


def _network_user(network: Resource, world: World) -> str | None:
    for connection in world.of_type(CONNECTION):
        if short_name(str(connection.inputs["network"])) == network.name:
            return f"the peering of {connection.inputs['service']}"
    return None


def _subnet_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    text = at(inputs, "ipCidrRange")
    if text is None:
        return
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError:
        yield Failure("ipCidrRange", f"{text!r} is refused; it must be the first address of a range and its length")
        return
    if not _WIDEST <= found.prefixlen <= _NARROWEST:
        yield Failure("ipCidrRange", f"{text} is refused; its length must be {_WIDEST} to {_NARROWEST}")


def _subnet_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    yield from _network_missing(str(inputs["network"]), "network", world)


def _network_missing(network: str, path: str, world: World) -> Iterator[Failure]:
    if world.find(NETWORK, network) is None:
        yield Failure(path, f"network {network} does not exist")


def _subnet_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/regions/{inputs['region']}/subnetworks/{name}"
    return {"id": full, "selfLink": f"https://www.googleapis.com/compute/v1/{full}"}


def _zone_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from matches(inputs, "dnsName", _DOMAIN, _DOMAIN_RULE)
    yield from one_of(inputs, "visibility", ("public", "private"))
    if at(inputs, "visibility") == "public" and at(inputs, "privateVisibilityConfig") is not None:
        yield Failure("privateVisibilityConfig", "belongs to a private zone only")


def _zone_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    for index, seeing in enumerate(at(inputs, "privateVisibilityConfig.networks") or []):
        path = f"privateVisibilityConfig.networks[{index}]"
        yield from _network_missing(str(seeing["networkUrl"]), path, world)


def _zone_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    labels = inputs.get("labels", {})
    full = f"projects/{inputs['project']}/managedZones/{name}"
    return {"id": full, "effectiveLabels": labels, "pulumiLabels": labels}


def _record_name(inputs: Inputs, _: Surroundings) -> str:
    return f"{short_name(str(inputs['managedZone']))} {inputs['name']} {inputs['type']}"


def _record_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _RECORD, _DOMAIN_RULE)
    yield from in_range(inputs, "ttl", 0, 2**31 - 1)
    data, kind = at(inputs, "rrdatas"), at(inputs, "type")
    if not data and at(inputs, "routingPolicy") is None:
        yield Failure("rrdatas", "is empty; a record leads somewhere")
    if kind == "CNAME" and len(data or []) > 1:
        yield Failure("rrdatas", "has several names; a CNAME has one")
    for index, text in enumerate(data or []):
        if kind == "A" and not is_unknown(text) and not _is_address(text):
            yield Failure(f"rrdatas[{index}]", f"{text!r} is refused; it must be an IPv4 address")


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _record_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    zone = world.find(DNS_ZONE, str(inputs["managedZone"]))
    if zone is None:
        yield Failure("managedZone", f"zone {inputs['managedZone']} does not exist")
    elif not f".{inputs['name']}".endswith(f".{zone.inputs['dnsName']}"):
        yield Failure("name", f"{inputs['name']} is not in {zone.inputs['dnsName']}")


def _record_computed(_: str, inputs: Inputs, __: World) -> dict[str, Any]:
    zone = short_name(str(inputs["managedZone"]))
    return {"id": f"projects/{inputs['project']}/managedZones/{zone}/rrsets/{inputs['name']}/{inputs['type']}"}


BEHAVIOURS: Final = {
    NETWORK: Behaviour(
        name=_named,
        auto_name="name",
        computed=_network_computed,
        defaults=lambda inputs: {"autoCreateSubnetworks": True, "routingMode": "REGIONAL", **inputs},
        rules=lambda inputs: matches(inputs, "name", _NAME, _NAME_RULE),
        immutable=frozenset({"name", "project", "autoCreateSubnetworks"}),
        user=_network_user,
    ),
    SUBNET: Behaviour(
        name=_named,
        auto_name="name",
        computed=_subnet_computed,
        defaults=lambda inputs: {"privateIpGoogleAccess": False, "stackType": "IPV4_ONLY", **inputs},
        rules=_subnet_rules,
        missing=_subnet_missing,
        immutable=frozenset({"name", "project", "region", "network"}),
    ),
    DNS_ZONE: Behaviour(
        name=_named,
        auto_name="name",
        computed=_zone_computed,
        defaults=lambda inputs: {"visibility": "public", "forceDestroy": False, **inputs},
        rules=_zone_rules,
        missing=_zone_missing,
        immutable=frozenset({"name", "project", "dnsName", "visibility"}),
    ),
    DNS_RECORD: Behaviour(
        name=_record_name,
        computed=_record_computed,
        rules=_record_rules,
        missing=_record_missing,
        immutable=frozenset({"name", "project", "managedZone", "type"}),
    ),
}
