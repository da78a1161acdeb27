"""What survives the end of the service."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.adapters.clock import ManualClock
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts
from sandbox.pubsub.message import Draft
from sandbox.pubsub.server import PubSub
from sandbox.world import World
from tests.support.endpoint import Endpoint
from tests.support.pubsub_clients import JOBS, PULLED, Clients
from tests.support.worlds import subscription


async def test_messages_survive_a_restart_with_their_counts_and_acknowledged_ones_do_not_come_back(
    world: World, pulled: str, identity: IdentityService, hosts: Hosts, clock: ManualClock, tmp_path: Path
) -> None:
    letters = {"deadLetterTopic": "projects/p-test/topics/dead", "maxDeliveryAttempts": 5}
    subscription(world, "pulled", JOBS, deadLetterPolicy=letters)

    @asynccontextmanager
    async def life() -> AsyncIterator[tuple[PubSub, Clients]]:
        service = PubSub(world, identity, hosts, clock, tmp_path / "restarted")
        await service.start()
        clients = Clients(service, identity)
        yield service, clients
        await clients.channel.close(None)
        await service.stop()

    async with life() as (_, clients):
        await clients.publish("kept", "acknowledged")
        kept, acknowledged = await clients.pull()
        await clients.acknowledge(acknowledged)
    async with life() as (service, clients):
        [again] = await clients.pull()
        assert again.message.message_id == kept.message.message_id
        assert (again.message.data, again.delivery_attempt) == (b"kept", 2)
        await clients.acknowledge(kept)
        assert service.counts()[pulled].in_flight == 1, "an earlier life's ack id means nothing"
        [new_id] = await clients.publish("new")
        assert int(new_id) > int(acknowledged.message.message_id)


async def test_what_was_answered_is_on_disk_at_that_moment(
    world: World,
    pushed: str,
    pulled: str,
    service: PubSub,
    identity: IdentityService,
    hosts: Hosts,
    clients: Clients,
    clock: ManualClock,
    endpoint: Endpoint,
    tmp_path: Path,
) -> None:
    endpoint.hold()
    await clients.publish("a", "b")
    received = await clients.pull()
    await clients.acknowledge(received[0])
    crashed = tmp_path / "crashed"
    await asyncio.to_thread(shutil.copytree, tmp_path / "pubsub", crashed)
    after = PubSub(world, identity, hosts, clock, crashed)
    await after.start()
    assert after.counts()[PULLED].pending == 1
    endpoint.release()
    await after.wait_idle()
    assert after.counts()[pushed].acknowledged == 2
    await after.stop()


async def test_a_caller_that_hangs_up_while_it_publishes_leaves_no_message_that_nobody_gets(
    pushed: str, service: PubSub, endpoint: Endpoint
) -> None:
    call = asyncio.create_task(service.publish(JOBS, [Draft(data=b"x")]))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await endpoint.received(1)
    await service.wait_idle()
