"""A Cloud Run front with declared services, real processes and real tokens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from runtime.adapters.clock import SystemClock
from runtime.ports.clock import Clock
from sandbox.cloud_run.factory import Surroundings
from sandbox.cloud_run.fork_launcher import ForkLauncher
from sandbox.cloud_run.front import CloudRun, Options
from sandbox.cloud_run.logs import LogLine
from sandbox.cloud_run.process import Launcher, SpawnLauncher
from sandbox.identity.server import IdentityService
from sandbox.network import Address
from sandbox.world import SERVICE, Resource, World

PROJECT, NUMBER, REGION = "demo", "123456789", "europe-west1"
TEST_ROLE = (sys.executable, "-P", "-m", "tests.support.cloud_role")
PROBE = {"httpGet": {"path": "/health/ready"}, "periodSeconds": 1, "failureThreshold": 60}


def new_launcher() -> Launcher:
    """Starts instances of the test role."""
    return ForkLauncher("tests.support.cloud_role", (), SpawnLauncher(TEST_ROLE))


def new_world(state_dir: Path | None = None) -> World:
    return World(PROJECT, NUMBER, REGION, state_dir or Path("/nonexistent"))


def account(name: str) -> str:
    return f"{name}@{PROJECT}.iam.gserviceaccount.com"


def host(service: str) -> str:
    return f"{service}-{NUMBER}.{REGION}.run.app"


def service(
    name: str,
    *,
    public: bool = True,
    role: str = "api",
    env: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    **inputs: Any,
) -> Resource:
    """A declared service; public means open ingress and no invoker check."""
    whole = {
        "image": "europe-docker.pkg.dev/demo/holdfast/runtime@sha256:0",
        "commands": ["python", "-m", "runtime"],
        "args": [role],
        "envs": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "resources": {"limits": {"cpu": "1000m", "memory": "512Mi"}, "cpuIdle": False},
        "startupProbe": PROBE,
        **(container or {}),
    }
    return Resource(
        SERVICE,
        name,
        f"urn:{name}",
        {
            "name": name,
            "location": REGION,
            "ingress": "INGRESS_TRAFFIC_ALL" if public else "INGRESS_TRAFFIC_INTERNAL_ONLY",
            "invokerIamDisabled": public,
            "template": {"serviceAccount": account(name), "timeout": "30s", "containers": [whole], **(template or {})},
            **inputs,
        },
        {},
    )


def grant(type_: str, field: str, on: str, role: str, member: str) -> Resource:
    return Resource(type_, f"{on}/{role}/{member}", "urn:grant", {field: on, "role": role, "member": member}, {})


def may_invoke(caller: str, on: str) -> Resource:
    type_ = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
    return grant(type_, "name", on, "roles/run.invoker", f"serviceAccount:{account(caller)}")


class Front:
    """A running front and a client of both its entrances."""

    def __init__(self, cloud_run: CloudRun, identity: IdentityService, http: aiohttp.ClientSession) -> None:
        self.cloud_run = cloud_run
        self.identity = identity
        self.http = http
        self.lines: list[LogLine] = []

    def request(
        self, service: str | None, path: str = "/", *, method: str = "GET", internal: bool = False, **arguments: Any
    ) -> aiohttp.client._RequestContextManager:
        """A call by a service's own host; None uses the loopback address."""
        at: Address = self.cloud_run.internal if internal else self.cloud_run.external
        headers = {**({} if service is None else {"Host": host(service)}), **arguments.pop("headers", {})}
        return self.http.request(method, f"http://127.0.0.1:{at.port}{path}", headers=headers, **arguments)

    async def status(self, service: str | None, path: str = "/", **arguments: Any) -> int:
        async with self.request(service, path, **arguments) as response:
            await response.read()
            return response.status

    async def json(self, service: str | None, path: str = "/", **arguments: Any) -> Any:
        async with self.request(service, path, **arguments) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    def pid(self, service: str) -> int:
        """Process id of the only instance of a service."""
        (instance,) = self.cloud_run.instances(service)
        assert instance.pid is not None
        return instance.pid


@asynccontextmanager
async def front(
    world: World,
    *,
    options: Options | None = None,
    surroundings: Surroundings | None = None,
    launcher: Launcher | None = None,
    check: bool = True,
    clock: Clock | None = None,
) -> AsyncIterator[Front]:
    clock = clock or SystemClock()
    identity = IdentityService(world, clock)
    lines: list[LogLine] = []
    cloud_run = CloudRun(
        world,
        identity,
        clock,
        surroundings=surroundings,
        options=options,
        sink=lines.append,
        launcher=launcher or new_launcher(),
    )
    await identity.start()
    http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60), trust_env=False)
    try:
        await cloud_run.start()
        made = Front(cloud_run, identity, http)
        made.lines = lines
        await cloud_run.deploy(check=check)
        yield made
    finally:
        await http.close()
        await asyncio.gather(cloud_run.stop(), identity.stop())
