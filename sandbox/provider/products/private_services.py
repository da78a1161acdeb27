"""Address ranges and connections through which Google's managed services are in a network of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, matches, one_of
from sandbox.world import World, short_name

GLOBAL_ADDRESS: Final = "gcp:compute/globalAddress:GlobalAddress"
CONNECTION: Final = "gcp:servicenetworking/connection:Connection"

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME_RULE: Final = "1 to 63 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_SERVICE: Final = re.compile(r"[a-z0-9-]+\.googleapis\.com", re.ASCII)
_PEERING: Final = "VPC_PEERING"


def _address_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _address_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from one_of(inputs, "addressType", ("EXTERNAL", "INTERNAL"))
    yield from one_of(inputs, "purpose", (_PEERING, "PRIVATE_SERVICE_CONNECT"))
    if inputs.get("purpose") != _PEERING:
        return
    yield from in_range(inputs, "prefixLength", 8, 29)
    if (
        at(inputs, "addressType") not in {None, "INTERNAL"}
        or not inputs.get("network")
        or not inputs.get("prefixLength")
    ):
        yield Failure("purpose", f"{_PEERING} needs addressType INTERNAL, a network and a prefixLength")


def _address_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/global/addresses/{name}"
    return {"id": full, "selfLink": f"https://www.googleapis.com/compute/v1/{full}", "address": "10.64.0.0"}


def _connection_name(inputs: Inputs, _: Surroundings) -> str:
    return f"{short_name(inputs['network'])} {inputs['service']}"


def _connection_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "service", _SERVICE, "a service, like servicenetworking.googleapis.com")
    yield from one_of(inputs, "deletionPolicy", ("ABANDON", "DELETE", "PREVENT", "REMOVE_PEERING"))
    if not inputs["reservedPeeringRanges"]:
        yield Failure("reservedPeeringRanges", "is empty; name an address range")


def _connection_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    for index, name in enumerate(inputs["reservedPeeringRanges"]):
        if world.find(GLOBAL_ADDRESS, name) is None:
            yield Failure(f"reservedPeeringRanges[{index}]", f"address range {name} does not exist")


def _connection_computed(_: str, inputs: Inputs, __: World) -> dict[str, Any]:
    peering = str(inputs["service"]).replace(".", "-")
    return {"id": f"{inputs['network']}:{inputs['service']}", "peering": peering}


BEHAVIOURS: Final = {
    GLOBAL_ADDRESS: Behaviour(
        name=_address_name,
        auto_name="name",
        computed=_address_computed,
        defaults=lambda inputs: {"addressType": "EXTERNAL", **inputs},
        rules=_address_rules,
        immutable=frozenset({"name", "project", "purpose", "addressType", "network", "prefixLength", "address"}),
    ),
    CONNECTION: Behaviour(
        name=_connection_name,
        computed=_connection_computed,
        rules=_connection_rules,
        missing=_connection_missing,
        immutable=frozenset({"network", "service"}),
        # Its peering, to be exact, which is no resource of its own.
        stays=lambda resource: resource.inputs.get("deletionPolicy") == "ABANDON",
    ),
}
