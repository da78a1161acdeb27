"""The executor and its network are declared as the API, which alone may call it, needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.naming import labels
from runtime.contract.forbidden import Role, scan
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from sandbox.cloud_run.declared import declared_service
from sandbox.engine.deployment import Deployment
from sandbox.world import DNS_RECORD, DNS_ZONE, NETWORK, SERVICE, SUBNET
from tests.support.job_keys import pair
from tests.support.stacks import NUMBER, PROJECT, REGION, realised

API, EXECUTOR, WORKER = "holdfast-api", "holdfast-executor", "holdfast-execution"
ADDRESS = f"https://{EXECUTOR}-{NUMBER}.{REGION}.run.app"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("stack"), executor={})


def inputs_of(stack: Deployment, type_: str, name: str) -> dict[str, Any]:
    resource = stack.world.find(type_, name)
    assert resource is not None, f"{type_} {name} is not declared"
    return dict(resource.inputs)


def container_of(stack: Deployment, service: str) -> dict[str, Any]:
    (container,) = inputs_of(stack, SERVICE, service)["template"]["containers"]
    return dict(container)


def environment_of(stack: Deployment, service: str) -> dict[str, str]:
    return {env["name"]: env.get("value", "from a secret") for env in container_of(stack, service)["envs"]}


def test_the_executor_takes_calls_from_inside_of_accounts_that_may(stack: Deployment) -> None:
    """BR-131: internal and load balancing, invoker check on."""
    executor = inputs_of(stack, SERVICE, EXECUTOR)

    assert executor["ingress"] == "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
    assert executor["invokerIamDisabled"] is False
    assert executor["customAudiences"] == [ADDRESS]
    assert executor["template"]["serviceAccount"] == f"{EXECUTOR}@{PROJECT}.iam.gserviceaccount.com"
    assert executor["labels"] == labels("test", "executor")
    assert "vpcAccess" not in executor["template"], "it calls the API at its public address"
    assert stack.outputs["executor_address"] == ADDRESS


def test_the_executor_always_has_its_cpu_and_so_has_the_api_that_waits_for_it(stack: Deployment) -> None:
    """BR-111: callbacks, and runs whose caller has gone, go on between requests."""
    assert container_of(stack, EXECUTOR)["resources"]["cpuIdle"] is False
    assert container_of(stack, API)["resources"]["cpuIdle"] is False


def test_an_api_that_waits_for_nobody_gives_its_cpu_back(tmp_path: Path) -> None:
    assert container_of(realised(tmp_path), API)["resources"]["cpuIdle"] is True


@pytest.mark.parametrize("service", [API, EXECUTOR, WORKER])
def test_every_service_is_asked_over_http_whether_it_started_lives_and_takes_requests(
    stack: Deployment, service: str
) -> None:
    """BR-112: no probe only opens a port, each is answered before the next, and a start fits the platform's window."""
    container = container_of(stack, service)
    paths = {"startupProbe": "/health/ready", "livenessProbe": "/health/live", "readinessProbe": "/health/ready"}

    for kind, path in paths.items():
        probe = container[kind]
        assert probe["httpGet"]["path"] == path
        assert "tcpSocket" not in probe
        assert probe["timeoutSeconds"] <= probe["periodSeconds"]
    startup = container["startupProbe"]
    assert startup["initialDelaySeconds"] + startup["periodSeconds"] * startup["failureThreshold"] <= 240


def test_the_environments_are_what_both_roles_start_with(stack: Deployment) -> None:
    """BR-118: neither PORT nor METRICS_PORT, which only the platform gives."""
    executor, api = environment_of(stack, EXECUTOR), environment_of(stack, API)

    assert list(executor) == sorted(executor)
    assert not {"PORT", "METRICS_PORT", "K_SERVICE", "BACKEND_KEY"} & executor.keys()
    assert scan(executor, Role.EXECUTOR) == []
    read = ExecutorSettings.from_env({**executor, "PORT": "8080"})
    calling = ApiSettings.from_env({**api, "PORT": "8080", "BACKEND_KEY": pair().private})
    assert (calling.backend_pub, calling.backend_kid) == (read.backend_pub, read.backend_kid)
    assert calling.executor_timeout_max == read.run_timeout
    assert {name: api[name] for name in ("EXECUTION_BACKEND", "EXECUTOR_URL", "EXECUTOR_AUTH")} == {
        "EXECUTION_BACKEND": "http",
        "EXECUTOR_URL": ADDRESS,
        "EXECUTOR_AUTH": "gcp_id_token",
    }


@pytest.mark.parametrize(("run", "timeout"), [(3540, "3600s"), (3570, "3600s"), (60, "120s")])
def test_the_request_of_a_run_outlasts_it_by_the_time_to_settle(tmp_path: Path, run: int, timeout: str) -> None:
    deployed = realised(tmp_path, executor={"run_timeout_seconds": run})

    assert inputs_of(deployed, SERVICE, EXECUTOR)["template"]["timeout"] == timeout
    assert environment_of(deployed, EXECUTOR)["EXECUTOR_TIMEOUT_SECS"] == str(run)
    assert environment_of(deployed, API)["API_EXECUTOR_TIMEOUT_MAX_SECS"] == str(run)


def test_the_api_calls_through_a_network_that_leads_to_the_platforms_private_addresses(stack: Deployment) -> None:
    """BR-131: without it the executor answers 404."""
    network, subnet = inputs_of(stack, NETWORK, "holdfast-network"), inputs_of(stack, SUBNET, "holdfast-network")
    zone = inputs_of(stack, DNS_ZONE, "holdfast-run-app")
    full = f"projects/{PROJECT}/global/networks/holdfast-network"

    assert network["autoCreateSubnetworks"] is False
    assert (subnet["network"], subnet["region"], subnet["privateIpGoogleAccess"]) == (full, REGION, True)
    assert (zone["dnsName"], zone["visibility"]) == ("run.app.", "private")
    assert zone["privateVisibilityConfig"] == {"networks": [{"networkUrl": full}]}
    records = {record.inputs["name"]: record.inputs["rrdatas"] for record in stack.world.of_type(DNS_RECORD)}
    addresses = ["199.36.153.8", "199.36.153.9", "199.36.153.10", "199.36.153.11"]
    assert records == {"run.app.": addresses, "*.run.app.": ["run.app."]}
    assert inputs_of(stack, SERVICE, API)["template"]["vpcAccess"] == {
        "egress": "PRIVATE_RANGES_ONLY",
        "networkInterfaces": [
            {"network": full, "subnetwork": f"projects/{PROJECT}/regions/{REGION}/subnetworks/holdfast-network"}
        ],
    }
    api, worker = (stack.world.find(SERVICE, name) for name in (API, WORKER))
    assert api is not None
    assert worker is not None
    assert declared_service(api, stack.world).covered
    assert not declared_service(worker, stack.world).covered, "only who needs the network is on it"


def test_the_api_starts_once_its_way_to_the_executor_is_open(stack: Deployment) -> None:
    order = {urn.rpartition("::")[2]: position for position, urn in enumerate(stack.created)}
    before = ["network-subnet", "network-platform-addresses", "network-platform-services", "api-invokes-executor"]

    assert max(order[name] for name in before) < order["api-service"]
    assert order["executor-service"] < order["api-invokes-executor"]


def test_a_stack_without_an_executor_has_neither_network_nor_zone(tmp_path: Path) -> None:
    plain = realised(tmp_path)

    assert {one.type for one in plain.world} & {NETWORK, SUBNET, DNS_ZONE, DNS_RECORD} == set()
    assert "executor_address" not in plain.outputs
    assert environment_of(plain, API)["EXECUTION_BACKEND"] == "none"
    assert "vpcAccess" not in inputs_of(plain, SERVICE, API)["template"]
