"""Every declared service has the environment that its role reads, and nothing beside it.

That each starts from its resource alone is seen in the tests of the local stack.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.adapters.clock import ManualClock
from runtime.roles import RoleName, read_settings
from sandbox.cloud_run.declared import declared_service
from sandbox.cloud_run.environment import environment
from sandbox.identity.grants import Grants
from sandbox.world import SERVICE
from tests.support.real_engine import embedded

OF_THE_PLATFORM = {"PORT", "K_SERVICE", "K_REVISION"}


@pytest.mark.parametrize("stack", ["dev", "local", "prod"])
def test_a_service_has_exactly_the_environment_that_its_role_reads(tmp_path: Path, stack: str) -> None:
    world = embedded(tmp_path, stack).world
    grants = Grants(world, ManualClock())
    services = [declared_service(resource, world) for resource in world.of_type(SERVICE)]

    assert {service.role for service in services} == set(RoleName)
    for service in services:
        given = environment(service, world, grants)
        read = read_settings(RoleName(service.role), given).to_env()
        assert {name: value for name, value in given.items() if name not in OF_THE_PLATFORM} == {
            name: value for name, value in read.items() if name not in OF_THE_PLATFORM
        }, service.name
