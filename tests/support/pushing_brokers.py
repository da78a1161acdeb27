"""Two brokers that push to a worker, with tokens and counts as Google sends them: the sandbox's, and Google's emulator.

The emulator pushes without tokens and without `deliveryAttempt`, so it cannot push to a worker that asks who calls. It
stands behind the sandbox's front instead: messages are pulled from it, posted as the sandbox posts them, and
acknowledged or rejected by the answer. What is the emulator's then: storage, ids, redelivery after a rejection, the
count of deliveries, and the dead-letter topic. What is the sandbox's: envelope, token, and which status acknowledges.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import grpc.aio
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from runtime.adapters.clock import SystemClock
from runtime.adapters.google_keys import GoogleKeySource
from runtime.ports.tokens import KeySource
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts, LoopbackConnector
from sandbox.pubsub.declared import Subscription, read_subscription
from sandbox.pubsub.endpoint import ACKNOWLEDGING, Endpoints
from sandbox.pubsub.envelope import envelope
from sandbox.pubsub.message import Draft, Message
from sandbox.pubsub.server import PubSub
from sandbox.world import World
from tests.support.worlds import (
    PUSH,
    WORKER_URL,
    agent_may_mint,
    empty_world,
    may_consume,
    may_publish,
    push_config,
    subscription,
    topic,
)

ATTEMPTS: Final = 5
"""Pub/Sub's smallest max_delivery_attempts; the emulator refuses every smaller one as well."""
DEADLINE: Final = 60
CALL: Final[Mapping[str, Any]] = {"retry": None, "timeout": 30}


class PushingBroker(Protocol):
    """A topic, a subscription of it that pushes to a worker, and a dead-letter topic with a subscription.

    Attributes:
        subscription: full name of the one that pushes.
        hosts: where the worker is; the test says so before it publishes.
    """

    hosts: Hosts

    @property
    def subscription(self) -> str:
        """See the class."""
        ...

    async def publish(self, data: bytes) -> str:
        """Publishes a message and returns its id."""
        ...

    async def idle(self) -> None:
        """Waits until every message was acknowledged or given up."""
        ...

    async def dead(self) -> list[types.PubsubMessage]:
        """What was given up, once that is at least one message."""
        ...


@dataclass
class Ground:
    """What both stand on: who is who, and where.

    Attributes:
        keys: of the tokens that are pushed.
    """

    world: World
    identity: IdentityService
    hosts: Hosts
    keys: KeySource


@asynccontextmanager
async def ground(folder: Path) -> AsyncIterator[Ground]:
    """An identity service whose agent may make tokens of the push account."""
    world, hosts = empty_world(folder), Hosts()
    agent_may_mint(world)
    identity = IdentityService(world, SystemClock())
    await identity.start()
    hosts.add("www.googleapis.com", identity.keys_address)
    async with aiohttp.ClientSession(connector=LoopbackConnector(hosts), trust_env=False) as session:
        yield Ground(world, identity, hosts, GoogleKeySource(session))
    await identity.stop()


class _Sandbox:
    def __init__(self, ground: Ground, service: PubSub, pushed: str, letters: str) -> None:
        self.hosts = ground.hosts
        self._pushed = pushed
        self._service = service
        self._letters = letters

    @property
    def subscription(self) -> str:
        return self._pushed

    async def publish(self, data: bytes) -> str:
        [message_id] = await self._service.publish("projects/p-test/topics/jobs", [Draft(data=data)])
        return message_id

    async def idle(self) -> None:
        await self._service.wait_idle(self.subscription)

    async def dead(self) -> list[types.PubsubMessage]:
        feed = self._service.broker.feed(self._letters)
        async with asyncio.timeout(60):
            while not (taken := self._service.broker.take(feed, 100)):
                self._service.broker.changed.clear()
                await self._service.broker.changed.wait()
        await self._service.settle(feed, [lease.id for lease in taken])
        return [types.PubsubMessage(data=one.message.data, attributes=dict(one.message.attributes)) for one in taken]


@asynccontextmanager
async def sandbox_broker(ground: Ground, folder: Path, attempts: int = ATTEMPTS) -> AsyncIterator[PushingBroker]:
    """The sandbox's service, which begins to push at once."""
    world, agent = ground.world, ground.world.agent("gcp-sa-pubsub")
    for name in ("jobs", "dead"):
        topic(world, name)
        may_publish(world, name, agent)
    pushed = subscription(
        world, "pushed", "projects/p-test/topics/jobs", pushConfig=push_config(), ackDeadlineSeconds=DEADLINE,
        retryPolicy={"minimumBackoff": "0s", "maximumBackoff": "1s"}, deadLetterPolicy=_policy("p-test", attempts),
    )  # fmt: skip
    may_consume(world, "pushed", agent)
    letters = subscription(world, "letters", "projects/p-test/topics/dead")
    service = PubSub(world, ground.identity, ground.hosts, SystemClock(), folder / "pubsub")
    await service.start()
    yield _Sandbox(ground, service, pushed, letters)
    await service.stop()


def _policy(project: str, attempts: int = ATTEMPTS) -> dict[str, Any]:
    return {"deadLetterTopic": f"projects/{project}/topics/dead", "maxDeliveryAttempts": attempts}


@dataclass
class _Emulator:
    """Google's emulator behind the front."""

    hosts: Hosts
    identity: IdentityService
    declared: Subscription
    publisher: PublisherAsyncClient
    subscriber: SubscriberAsyncClient
    endpoints: Endpoints
    open: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    posts: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def subscription(self) -> str:
        return self.declared.name

    async def publish(self, data: bytes) -> str:
        message = types.PubsubMessage(data=data)
        response = await self.publisher.publish(topic=self.declared.topic, messages=[message], **CALL)
        [message_id] = response.message_ids
        self.open.add(message_id)
        return str(message_id)

    async def idle(self) -> None:
        async with asyncio.timeout(60):
            while self.open:
                self.changed.clear()
                await self.changed.wait()

    async def dead(self) -> list[types.PubsubMessage]:
        letters = self.declared.name.replace("/pushed", "/letters")
        async with asyncio.timeout(60):
            while True:
                response = await self.subscriber.pull(subscription=letters, max_messages=100, **CALL)
                if response.received_messages:
                    break
        ids = [each.ack_id for each in response.received_messages]
        await self.subscriber.acknowledge(subscription=letters, ack_ids=ids, **CALL)
        return [each.message for each in response.received_messages]

    async def run(self) -> None:
        """Pushes what there is to pull, until it is cancelled; asking is also what makes the emulator forward."""
        while True:
            response = await self.subscriber.pull(subscription=self.declared.name, max_messages=10, **CALL)
            for received in response.received_messages:
                post = asyncio.create_task(self._push(received))
                self.posts.add(post)
                post.add_done_callback(self.posts.discard)

    async def _push(self, received: types.ReceivedMessage) -> None:
        message, attempt = received.message, received.delivery_attempt
        published: Any = message.publish_time  # a datetime, whatever its stub says
        pushed = Message(
            id=int(message.message_id), topic=self.declared.topic, published=published, data=message.data,
            attributes=dict(message.attributes), ordering_key=message.ordering_key,
        )  # fmt: skip
        body = envelope(self.declared, pushed, attempt)
        push = self.declared.push
        assert push is not None
        assert push.account is not None
        token = self.identity.id_token(push.account, push.audience)
        status = await self.endpoints.post(push.endpoint, token, body, DEADLINE)
        name = self.declared.name
        if status in ACKNOWLEDGING:
            await self.subscriber.acknowledge(subscription=name, ack_ids=[received.ack_id], **CALL)
        else:
            await self.subscriber.modify_ack_deadline(
                subscription=name, ack_ids=[received.ack_id], ack_deadline_seconds=0, **CALL
            )
        if status in ACKNOWLEDGING or attempt >= ATTEMPTS:
            self.open.discard(message.message_id)
            self.changed.set()


@asynccontextmanager
async def emulator_broker(ground: Ground, address: str, project: str) -> AsyncIterator[PushingBroker]:
    """Google's emulator at an address, and the front before it."""
    async with AsyncExitStack() as stack:
        channel = grpc.aio.insecure_channel(address)
        stack.push_async_callback(channel.close, None)
        publisher = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel))
        subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))
        for name in ("jobs", "dead"):
            await publisher.create_topic(name=f"projects/{project}/topics/{name}", **CALL)
        jobs, dead = (f"projects/{project}/topics/{name}" for name in ("jobs", "dead"))
        pushed = f"projects/{project}/subscriptions/pushed"
        request = types.Subscription(
            name=pushed, topic=jobs, ack_deadline_seconds=DEADLINE,
            dead_letter_policy=types.DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=ATTEMPTS),
        )  # fmt: skip
        await subscriber.create_subscription(request, **CALL)
        await subscriber.create_subscription(name=f"projects/{project}/subscriptions/letters", topic=dead, **CALL)
        inputs = {"topic": jobs, "pushConfig": push_config(WORKER_URL, PUSH), "deadLetterPolicy": _policy(project)}
        endpoints = Endpoints(ground.hosts)
        endpoints.open()
        stack.push_async_callback(endpoints.close)
        declared = read_subscription(project, "pushed", inputs)
        broker = _Emulator(ground.hosts, ground.identity, declared, publisher, subscriber, endpoints)
        running = asyncio.create_task(broker.run(), name="pull from the emulator")
        yield broker
        running.cancel()
        await asyncio.gather(running, *broker.posts, return_exceptions=True)
