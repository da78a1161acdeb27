"""What a load balancer of Google's refuses although its SDK does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.provider.faults import ProviderRefused
from sandbox.provider.products import load_balancer as lb
from sandbox.world import SERVICE, World
from tests.support.provider import SERVICE_INPUTS, create, failures, new_world

GROUP: dict[str, Any] = {"name": "group", "region": "europe-west1", "cloudRun": {"service": "worker"}}
RULE: dict[str, Any] = {"name": "rule", "target": "proxy", "portRange": "443"}


@pytest.mark.parametrize(
    ("type_", "inputs", "failure"),
    [
        (lb.ADDRESS, {"name": "Public"}, "name: 'Public' is refused"),
        (lb.ENDPOINT_GROUP, {**GROUP, "cloudRun": {}}, "cloudRun.service: is missing"),
        (lb.ENDPOINT_GROUP, {"name": "group", "region": "europe-west1"}, "exactly one of cloudRun"),
        (lb.BACKEND, {"name": "b", "loadBalancingScheme": "PUBLIC"}, "loadBalancingScheme: 'PUBLIC' is refused"),
        (lb.BACKEND, {"name": "b", "logConfig": {"enable": True, "sampleRate": 2}}, "sampleRate: 2 is refused"),
        (lb.URL_MAP, {"name": "m"}, "exactly one of defaultService"),
        (
            lb.URL_MAP,
            {"name": "m", "defaultUrlRedirect": {"stripQuery": False, "redirectResponseCode": "GONE"}},
            "redirectResponseCode: 'GONE' is refused",
        ),
        (lb.CERTIFICATE, {"name": "c"}, "managed.domains: has 0 members"),
        (lb.CERTIFICATE, {"name": "c", "managed": {"domains": ["*.example.com"]}}, "it must be a domain, no wildcard"),
        (lb.TLS_POLICY, {"name": "t", "profile": "OLD"}, "profile: 'OLD' is refused"),
        (lb.TLS_POLICY, {"name": "t", "profile": "CUSTOM"}, "customFeatures: belong to the profile CUSTOM"),
        (lb.HTTPS_PROXY, {"name": "p", "urlMap": "m"}, "sslCertificates: one of sslCertificates"),
        (lb.HTTPS_PROXY, {"name": "p", "urlMap": "m", "sslCertificates": ["c"] * 16}, "has more than 15 members"),
        (lb.FORWARDING_RULE, {**RULE, "portRange": "https"}, "portRange: 'https' is refused"),
    ],
)
def test_a_part_that_cannot_be(type_: str, inputs: dict[str, Any], failure: str) -> None:
    (found,) = failures(type_, inputs)
    assert failure in found


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A service, and a load balancer in front of it."""
    world = new_world(tmp_path)
    create(world, SERVICE, SERVICE_INPUTS)
    group = create(world, lb.ENDPOINT_GROUP, GROUP)
    backend = create(world, lb.BACKEND, {"name": "backend", "backends": [{"group": group.outputs["id"]}]})
    urls = create(world, lb.URL_MAP, {"name": "urls", "defaultService": backend.outputs["id"]})
    address = create(world, lb.ADDRESS, {"name": "address"})
    proxy = create(world, lb.HTTP_PROXY, {"name": "proxy", "urlMap": urls.outputs["id"]})
    create(world, lb.FORWARDING_RULE, {**RULE, "target": proxy.outputs["id"], "ipAddress": address.outputs["id"]})
    return world


@pytest.mark.parametrize(
    ("type_", "inputs", "refusal"),
    [
        (lb.ENDPOINT_GROUP, {**GROUP, "name": "g", "cloudRun": {"service": "gone"}}, "service gone does not exist"),
        (lb.ENDPOINT_GROUP, {**GROUP, "name": "g", "region": "us-central1"}, "is not europe-west1"),
        (
            lb.BACKEND,
            {
                "name": "b",
                "backends": [{"group": "projects/p-test/regions/r/networkEndpointGroups/group"}],
                "timeoutSec": 5,
            },
            "timeoutSec: is not for serverless endpoints",
        ),
        (lb.URL_MAP, {"name": "u", "defaultService": "gone"}, "defaultService: gone does not exist"),
        (lb.HTTPS_PROXY, {"name": "p", "urlMap": "urls", "sslCertificates": ["gone"]}, "sslCertificates: gone"),
        (lb.FORWARDING_RULE, {**RULE, "name": "r", "target": "gone"}, "target: gone does not exist"),
        (
            lb.FORWARDING_RULE,
            {**RULE, "name": "r", "ipAddress": "projects/p-test/global/addresses/address"},
            "443 of the address is taken by rule",
        ),
    ],
)
def test_a_part_that_does_not_fit_the_others(world: World, type_: str, inputs: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        create(world, type_, inputs)
    assert refusal in str(caught.value)
