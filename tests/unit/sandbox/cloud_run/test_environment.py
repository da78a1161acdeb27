from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from runtime.adapters.clock import ManualClock
from sandbox.cloud_run.declared import declared_service
from sandbox.cloud_run.environment import EnvironmentIncomplete, environment
from sandbox.identity.grants import Grants
from sandbox.world import SECRET_VERSION, Resource, World
from tests.support.cloud_run import account, grant, new_world, service

REFERENCE = {"secretKeyRef": {"secret": "projects/demo/secrets/key", "version": "latest"}}
RESOURCE = service("api", container={"envs": [{"name": "A", "value": "1"}, {"name": "K", "valueSource": REFERENCE}]})
ACCESSOR = grant(
    "gcp:secretmanager/secretIamMember:SecretIamMember",
    "secretId",
    "key",
    "roles/secretmanager.secretAccessor",
    f"serviceAccount:{account('api')}",
)


def version(number: int, value: str) -> Resource:
    return Resource(SECRET_VERSION, f"key/versions/{number}", "urn:v", {"secret": "key", "secretData": value}, {})


def rendered(world: World) -> dict[str, str]:
    return environment(declared_service(RESOURCE, world), world, Grants(world, ManualClock()))


def test_the_environment_is_what_is_declared_and_three_variables_of_the_platform() -> None:
    world = new_world()
    for resource in (ACCESSOR, version(1, "old"), version(2, "new")):
        world.put(resource)
    assert rendered(world) == {"A": "1", "K": "new", "PORT": "8080", "K_SERVICE": "api", "K_REVISION": "api-00001"}


def test_a_secret_without_its_grant_stops_the_start_and_the_warning_has_no_value() -> None:
    world = new_world()
    world.put(version(1, "do-not-show"))
    with (
        capture_logs() as logs,
        pytest.raises(EnvironmentIncomplete, match=r"variable K .* missing grant: .*secretAccessor on secret") as error,
    ):
        rendered(world)
    assert [row["event"] for row in logs] == ["grant_missing"]
    assert "do-not-show" not in f"{logs}{error.value}"


def test_a_secret_without_that_version_stops_the_start() -> None:
    world = new_world()
    world.put(ACCESSOR)
    with pytest.raises(EnvironmentIncomplete, match="no version latest"):
        rendered(world)
