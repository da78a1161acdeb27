"""A declared topic, a push endpoint, the service between them, and Google's clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.adapters.clock import ManualClock
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts
from sandbox.pubsub.server import PubSub
from sandbox.world import World
from tests.support.endpoint import Endpoint
from tests.support.pubsub_clients import JOBS, Clients
from tests.support.worlds import (
    agent_may_mint,
    empty_world,
    may_consume,
    may_publish,
    push_config,
    subscription,
    topic,
)

RETRY = {"minimumBackoff": "10s", "maximumBackoff": "600s"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One topic that the API may publish to; the agent may make the push account's tokens."""
    made = empty_world(tmp_path)
    topic(made, "jobs")
    may_publish(made, "jobs")
    agent_may_mint(made)
    return made


@pytest.fixture
def pushed(world: World) -> str:
    return subscription(world, "pushed", JOBS, pushConfig=push_config(), retryPolicy=RETRY)


@pytest.fixture
def pulled(world: World) -> str:
    name = subscription(world, "pulled", JOBS, ackDeadlineSeconds=10)
    may_consume(world, "pulled")
    return name


@pytest.fixture
async def identity(world: World, clock: ManualClock) -> AsyncIterator[IdentityService]:
    service = IdentityService(world, clock)
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


@pytest.fixture
def hosts(endpoint: Endpoint) -> Hosts:
    table = Hosts()
    table.add("*.run.app", endpoint.address)
    return table


@pytest.fixture
async def service(
    world: World, identity: IdentityService, hosts: Hosts, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[PubSub]:
    made = PubSub(world, identity, hosts, clock, tmp_path / "pubsub")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def clients(service: PubSub, identity: IdentityService) -> AsyncIterator[Clients]:
    made = Clients(service, identity)
    yield made
    await made.channel.close(None)
