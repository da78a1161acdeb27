from __future__ import annotations

from typing import Any

import pytest

from sandbox.cloud_run.declared import DeclaredService, Ingress, ServiceMisdeclared, Variable, declared_service
from sandbox.world import Resource
from tests.support.cloud_run import NUMBER, account, host, new_world, service


def declared(resource: Resource, *others: Resource) -> DeclaredService:
    world = new_world()
    for other in others:
        world.put(other)
    return declared_service(resource, world)


def container(**inputs: Any) -> Resource:
    return service("api", container=inputs)


def test_what_a_program_leaves_out_is_what_the_platform_takes() -> None:
    bare = {"containers": [{"image": "i", "commands": ["python", "-m", "runtime"], "args": ["api"]}]}
    found = declared(Resource("t", "api", "urn", {"template": bare}, {}))
    assert found.timeout == 300
    assert (found.concurrency, found.min_instances, found.max_instances) == (80, 0, 100)
    assert found.ingress is Ingress.ALL
    assert found.checks_invoker
    assert found.account == f"{NUMBER}-compute@developer.gserviceaccount.com"
    assert found.cpu_idle
    assert found.port == 8080
    assert (found.startup.path, found.startup.window) == (None, 240)
    assert (found.liveness, found.readiness) == (None, None)


def test_what_a_program_says_is_what_counts() -> None:
    found = declared(
        service(
            "worker",
            public=False,
            customAudiences=["https://jobs.example"],
            scaling={"minInstanceCount": 1},
            template={
                "timeout": "3.5s",
                "maxInstanceRequestConcurrency": 4,
                "scaling": {"maxInstanceCount": 7},
                "serviceAccount": account("worker"),
            },
        )
    )
    assert (found.timeout, found.concurrency, found.min_instances, found.max_instances) == (3.5, 4, 1, 7)
    assert found.audiences == {found.url, "https://jobs.example"}
    assert (found.host, found.url) == (host("worker"), f"https://{host('worker')}")
    assert found.account == account("worker")


def test_cpu_stays_where_resources_are_given_without_a_word_about_it() -> None:
    assert not declared(container(resources={"limits": {"cpu": "1"}})).cpu_idle
    assert declared(container(resources={"cpuIdle": True})).cpu_idle


@pytest.mark.parametrize(
    "words",
    [
        {"commands": [], "args": []},
        {"commands": ["python", "-m", "runtime"], "args": []},
        {"commands": ["python", "-m", "runtime"], "args": ["api", "--debug"]},
        {"commands": ["python3", "-m", "runtime"], "args": ["api"]},
        {"commands": ["sh", "-c", "python -m runtime api"], "args": []},
        {"commands": ["python", "-m", "runtime"], "args": ["../x"]},
    ],
)
def test_only_the_runtime_with_one_role_can_be_run(words: dict[str, list[str]]) -> None:
    with pytest.raises(ServiceMisdeclared, match="command and args must be `python -m runtime ROLE`"):
        declared(container(**words))


def test_command_and_args_may_be_split_anywhere() -> None:
    assert declared(container(commands=["python"], args=["-m", "runtime", "worker"])).role == "worker"


def test_a_second_container_is_refused() -> None:
    with pytest.raises(ServiceMisdeclared, match="declares 2 containers"):
        declared(service("api", template={"containers": [{}, {}]}))


def test_variables_are_values_or_versions_of_secrets_in_order() -> None:
    reference = {"secretKeyRef": {"secret": "key", "version": "3"}}
    latest = {"secretKeyRef": {"secret": "other"}}
    envs = [{"name": "A", "value": "1"}, {"name": "B", "valueSource": reference}, {"name": "C", "valueSource": latest}]
    assert declared(container(envs=envs)).variables == (
        Variable("A", "1"),
        Variable("B", secret="key", version="3"),
        Variable("C", secret="other", version="latest"),
    )


def test_a_probe_of_a_container_keeps_its_path_window_and_headers() -> None:
    probe = {
        "httpGet": {"path": "/health/ready", "httpHeaders": [{"name": "X-A", "value": "1"}]},
        "initialDelaySeconds": 2,
        "periodSeconds": 3,
        "failureThreshold": 4,
        "timeoutSeconds": 1,
    }
    startup = declared(container(startupProbe=probe)).startup
    assert (startup.path, startup.window, startup.headers) == ("/health/ready", 14, (("X-A", "1"),))
