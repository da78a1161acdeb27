"""Each service of the local stack becomes ready from its own resource, while no other is declared.

What the resource must hold for that is seen in the tests of deployments.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.roles import RoleName
from sandbox.cloud_run.declared import declared_service
from sandbox.world import SERVICE
from tests.support.local import local_stack


async def test_every_service_starts_from_its_resource_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set around it would stop it, if any of it came through."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
    async with local_stack(tmp_path) as running:
        world, cloud_run = running.stack.deployment.world, running.stack.cloud_run
        declared = world.of_type(SERVICE)
        assert {declared_service(one, world).role for one in declared} == set(RoleName)
        for one in declared:
            world.remove(one.type, one.name)
        for one in declared:
            await cloud_run.deploy()
            assert dict(cloud_run.services) == {}
            world.put(one)
            assert await cloud_run.deploy() == {}, running.logs.text()
            assert [instance.serving for instance in cloud_run.instances(one.name)] == [True]
            world.remove(one.type, one.name)
