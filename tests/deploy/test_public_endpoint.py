"""A domain in front of the API, and in front of nothing else.

Does not cover DNS, nor how long a certificate takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.engine.deployment import Deployment
from sandbox.provider.products import load_balancer as lb
from sandbox.world import SERVICE, Resource
from tests.support.policy_programs import of_registrations
from tests.support.stacks import realised, refused

DOMAIN = "jobs.example.com"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("stack"), public_endpoint={"domain": DOMAIN}, executor={})


def the(stack: Deployment, type_: str, name: str = "holdfast-public") -> Resource:
    found = stack.world.find(type_, name)
    assert found is not None
    return found


def short(urns: tuple[str, ...]) -> list[str]:
    return sorted(urn.rpartition("::")[2] for urn in urns)


def test_a_request_finds_its_way_from_the_address_to_the_api(stack: Deployment) -> None:
    rule = the(stack, lb.FORWARDING_RULE, "holdfast-public-https")
    proxy = the(stack, lb.HTTPS_PROXY)
    (certificate,) = stack.world.of_type(lb.CERTIFICATE)
    (group,) = stack.world.of_type(lb.ENDPOINT_GROUP)

    assert (rule.inputs["portRange"], rule.inputs["target"]) == ("443", proxy.outputs["id"])
    assert rule.inputs["ipAddress"] == the(stack, lb.ADDRESS).outputs["id"]
    assert proxy.inputs["urlMap"] == the(stack, lb.URL_MAP).outputs["id"]
    assert proxy.inputs["sslCertificates"] == [certificate.outputs["id"]]
    assert certificate.inputs["managed"] == {"domains": [DOMAIN]}
    assert the(stack, lb.TLS_POLICY).inputs["profile"] == "MODERN"
    assert the(stack, lb.URL_MAP).inputs["defaultService"] == the(stack, lb.BACKEND).outputs["id"]
    assert the(stack, lb.BACKEND).inputs["backends"] == [{"group": group.outputs["id"]}]
    assert group.inputs["cloudRun"] == {"service": "holdfast-api"}


def test_http_is_sent_to_https(stack: Deployment) -> None:
    rule = the(stack, lb.FORWARDING_RULE, "holdfast-public-http")
    redirect = the(stack, lb.URL_MAP, "holdfast-public-redirect")

    assert (rule.inputs["portRange"], rule.inputs["target"]) == ("80", the(stack, lb.HTTP_PROXY).outputs["id"])
    assert the(stack, lb.HTTP_PROXY).inputs["urlMap"] == redirect.outputs["id"]
    assert redirect.inputs["defaultUrlRedirect"]["httpsRedirect"] is True
    assert "defaultService" not in redirect.inputs


def test_the_api_is_still_called_at_its_own_address_by_the_services(stack: Deployment) -> None:
    """A worker has no way through the network, so an API for load balancers only would refuse its callbacks."""
    api = the(stack, SERVICE, "holdfast-api")
    assert api.inputs["ingress"] == "INGRESS_TRAFFIC_ALL"
    assert "defaultUriDisabled" not in api.inputs
    assert stack.outputs["public_url"] == f"https://{DOMAIN}"
    assert stack.outputs["public_address"] == the(stack, lb.ADDRESS).outputs["address"]
    assert stack.outputs["api_address"] == api.outputs["uri"]


def test_the_policy_pack_has_nothing_to_say_until_an_internal_service_is_behind_it(stack: Deployment) -> None:
    program = of_registrations(stack.registrations)
    assert program.broken() == set()
    (group,) = [key for key in program.declared if key.startswith("RegionNetworkEndpointGroup/")]
    worker = program.unlinked(group).with_(group, "cloudRun.service", "holdfast-execution")
    assert worker.broken() == {"X03"}


def test_a_second_run_changes_nothing_and_another_domain_replaces_no_address(tmp_path: Path) -> None:
    realised(tmp_path, public_endpoint={"domain": DOMAIN})
    same = realised(tmp_path, public_endpoint={"domain": DOMAIN})
    other = realised(tmp_path, public_endpoint={"domain": "other.example.com"})

    assert (same.created, same.updated, same.replaced, same.deleted) == ((), (), (), ())
    assert short(other.created) == short(other.deleted) == ["public-certificate"]
    assert short(other.updated) == ["public-https"]


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        ({"domain": "*.example.com"}, "holdfast:public_endpoint.domain"),
        ({"domain": "example.com."}, "holdfast:public_endpoint.domain"),
        ({"domain": "a" * 60 + ".com"}, "holdfast:public_endpoint.domain"),
        ({}, "holdfast:public_endpoint.domain"),
        ({"domain": DOMAIN, "iap": "true"}, "holdfast:public_endpoint.iap"),
    ],
)
def test_a_domain_that_gets_no_certificate_is_refused(plan: dict[str, Any], key: str) -> None:
    (line,) = refused(public_endpoint=plan)
    assert f" {key} is" in line
