"""From which declared networks a call of another service counts as coming from inside."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cloud_run.egress import reaches_services
from sandbox.world import DNS_RECORD, DNS_ZONE, SUBNET, Resource
from tests.support.cloud_run import new_world

NETWORK, FULL_SUBNET = "projects/demo/global/networks/net", "projects/demo/regions/europe-west1/subnetworks/sub"
VPC = {"egress": "PRIVATE_RANGES_ONLY", "networkInterfaces": [{"network": NETWORK, "subnetwork": FULL_SUBNET}]}
ALL = {**VPC, "egress": "ALL_TRAFFIC"}
DECLARED: dict[str, dict[str, Any]] = {
    SUBNET: {"name": "sub", "privateIpGoogleAccess": True},
    DNS_ZONE: {
        "name": "zone", "dnsName": "run.app.", "visibility": "private",
        "privateVisibilityConfig": {"networks": [{"networkUrl": NETWORK}]},
    },
    "A": {"name": "run.app.", "type": "A", "managedZone": "zone", "rrdatas": ["199.36.153.8", "199.36.153.11"]},
    "CNAME": {"name": "*.run.app.", "type": "CNAME", "managedZone": "zone", "rrdatas": ["run.app."]},
}  # fmt: skip


def reaches(vpc: dict[str, Any], kind: str = "", change: dict[str, Any] | None = None) -> bool:
    """Whether it does where one of the declared resources is changed; None leaves it out."""
    world = new_world()
    for each, inputs in DECLARED.items():
        if each != kind or change is not None:
            changed = {**inputs, **(change or {})} if each == kind else inputs
            type_ = each if each.startswith("gcp:") else DNS_RECORD
            world.put(Resource(type_, inputs["name"], "urn", changed, {}))
    return reaches_services(vpc, world)


@pytest.mark.parametrize("vpc", [VPC, {**VPC, "egress": None}, {"connector": "c"}, ALL])
def test_a_service_on_the_declared_network_calls_from_inside(vpc: dict[str, Any]) -> None:
    """BR-131: internal ingress admits callers that come through the VPC."""
    assert reaches(vpc)


@pytest.mark.parametrize("vpc", [{}, {"egress": "ALL_TRAFFIC"}, {"egress": "PRIVATE_RANGES_ONLY"}])
def test_a_service_without_an_interface_calls_from_outside(vpc: dict[str, Any]) -> None:
    assert not reaches(vpc)


@pytest.mark.parametrize("kind", [DNS_ZONE, "A", "CNAME"])
def test_traffic_to_private_ranges_needs_names_that_lead_there(kind: str) -> None:
    assert not reaches(VPC, kind)
    assert reaches(ALL, kind)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (DNS_ZONE, {"visibility": "public"}),
        (DNS_ZONE, {"dnsName": "example.org."}),
        (DNS_ZONE, {"privateVisibilityConfig": {"networks": [{"networkUrl": "projects/demo/global/networks/other"}]}}),
        (DNS_ZONE, {"privateVisibilityConfig": None}),
        ("A", {"rrdatas": ["199.36.153.8", "203.0.113.1"]}),
        ("CNAME", {"rrdatas": ["elsewhere.example."]}),
        ("CNAME", {"managedZone": "other"}),
    ],
)
def test_a_name_that_leads_elsewhere_does_not_go_through_the_network(kind: str, change: dict[str, Any]) -> None:
    assert not reaches(VPC, kind, change)


def test_an_address_for_every_service_does_without_an_alias() -> None:
    assert reaches(VPC, "CNAME", {"type": "A", "rrdatas": ["199.36.153.4"]})


def test_a_subnet_without_access_to_google_reaches_no_service() -> None:
    assert not reaches(VPC, SUBNET, {"privateIpGoogleAccess": False})
    assert not reaches(ALL, SUBNET, {"privateIpGoogleAccess": False})
    assert reaches(VPC, SUBNET), "a subnet of another program is taken to be right"
