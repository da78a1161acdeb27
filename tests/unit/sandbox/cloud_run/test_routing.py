from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cloud_run.declared import declared_service
from sandbox.cloud_run.routing import Entrance, Routes
from tests.support.cloud_run import host, new_world, service

WORLD = new_world()
SERVICES = [
    declared_service(resource, WORLD)
    for resource in (
        service("api"),
        service("worker", public=False),
        service("executor", ingress="INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"),
    )
]
ROUTES = Routes.of(SERVICES, "api")


def found(header: str, entrance: Entrance, routes: Routes = ROUTES) -> str | None:
    service = routes.find(header, entrance)
    return None if service is None else service.name


@pytest.mark.parametrize("name", ["api", "worker", "executor"])
def test_callers_inside_reach_every_service(name: str) -> None:
    assert found(host(name), Entrance.INTERNAL) == name


@pytest.mark.parametrize(("name", "answer"), [("api", "api"), ("worker", None), ("executor", None)])
def test_callers_outside_reach_only_open_services(name: str, answer: str | None) -> None:
    assert found(host(name), Entrance.EXTERNAL) == answer


@pytest.mark.parametrize("header", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:80", "", "my.machine"])
def test_people_outside_reach_the_public_service_by_any_other_name(header: str) -> None:
    assert found(header, Entrance.EXTERNAL) == "api"
    assert found(header, Entrance.INTERNAL) is None


def test_a_host_of_the_platform_without_a_service_is_nobody() -> None:
    assert found(host("wroker"), Entrance.EXTERNAL) is None


def test_without_a_public_service_only_hosts_count() -> None:
    assert found("127.0.0.1", Entrance.EXTERNAL, Routes.of(SERVICES, None)) is None


def test_a_public_service_that_is_closed_to_the_outside_stays_closed() -> None:
    assert found("127.0.0.1", Entrance.EXTERNAL, Routes.of(SERVICES, "worker")) is None


@pytest.mark.parametrize("form", [str.upper, lambda name: f"{name}:443", lambda name: f"{name}."])
def test_a_host_is_known_in_every_spelling(form: object) -> None:
    assert callable(form)
    assert found(form(host("worker")), Entrance.INTERNAL) == "worker"


@given(st.text())
def test_no_header_breaks_the_routing(header: str) -> None:
    assert found(header, Entrance.INTERNAL) in {None, "api", "worker", "executor"}
