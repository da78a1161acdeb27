"""Google's Pub/Sub emulator and the sandbox's service behind one face, for one suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from runtime.adapters.clock import SystemClock
from sandbox.identity.server import IdentityService
from sandbox.network import Hosts
from sandbox.pubsub.server import PubSub
from tests.support.endpoint import Endpoint
from tests.support.worlds import (
    API,
    WORKER_URL,
    empty_world,
    may_consume,
    may_publish,
    push_config,
    subscription,
    topic,
)


class ContractBroker(Protocol):
    """A Pub/Sub with Google's clients to it."""

    publisher: PublisherAsyncClient
    subscriber: SubscriberAsyncClient
    call: dict[str, Any]
    """Keyword arguments of every call."""

    def topic_name(self, name: str) -> str:
        """Full name of a topic, which need not exist."""
        ...

    def subscription_name(self, name: str) -> str:
        """Full name of a subscription, which need not exist."""
        ...

    async def create_topic(self, name: str) -> str:
        """Makes a topic that the caller may publish to; returns its full name."""
        ...

    async def create_subscription(
        self, name: str, of_topic: str, *, push: bool = False, dead_letters: str = "", ordered: bool = False
    ) -> str:
        """Makes a subscription that the caller may pull from, or one that pushes to the endpoint."""
        ...


class _Emulator:
    def __init__(self, channel: grpc.aio.Channel, project: str, endpoint: Endpoint) -> None:
        self.publisher = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel))
        self.subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))
        self.call: dict[str, Any] = {"retry": None, "timeout": 30}
        self._project = project
        self._endpoint = endpoint

    def topic_name(self, name: str) -> str:
        return f"projects/{self._project}/topics/{name}"

    def subscription_name(self, name: str) -> str:
        return f"projects/{self._project}/subscriptions/{name}"

    async def create_topic(self, name: str) -> str:
        created = await self.publisher.create_topic(name=self.topic_name(name), **self.call)
        return str(created.name)

    async def create_subscription(
        self, name: str, of_topic: str, *, push: bool = False, dead_letters: str = "", ordered: bool = False
    ) -> str:
        fields: dict[str, Any] = {}
        if push:
            fields["push_config"] = {"push_endpoint": f"http://127.0.0.1:{self._endpoint.address.port}/"}
        if dead_letters:
            fields["dead_letter_policy"] = {"dead_letter_topic": dead_letters, "max_delivery_attempts": 5}
        request = types.Subscription(
            name=self.subscription_name(name),
            topic=of_topic,
            ack_deadline_seconds=60,
            enable_message_ordering=ordered,
            **fields,
        )
        created = await self.subscriber.create_subscription(request, **self.call)
        return str(created.name)


class _Sandbox:
    def __init__(self, channel: grpc.aio.Channel, service: PubSub, identity: IdentityService) -> None:
        self.publisher = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel))
        self.subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))
        metadata = [("authorization", f"Bearer {identity.access_token(API)}")]
        self.call: dict[str, Any] = {"retry": None, "timeout": 30, "metadata": metadata}
        self._service = service
        self._world = identity.world

    def topic_name(self, name: str) -> str:
        return f"projects/{self._world.project}/topics/{name}"

    def subscription_name(self, name: str) -> str:
        return f"projects/{self._world.project}/subscriptions/{name}"

    async def create_topic(self, name: str) -> str:
        may_publish(self._world, name)
        may_publish(self._world, name, self._world.agent("gcp-sa-pubsub"))
        return topic(self._world, name)

    async def create_subscription(
        self, name: str, of_topic: str, *, push: bool = False, dead_letters: str = "", ordered: bool = False
    ) -> str:
        fields: dict[str, Any] = {"enableMessageOrdering": ordered}
        if push:
            fields["pushConfig"] = push_config(account=None)
        if dead_letters:
            fields["deadLetterPolicy"] = {"deadLetterTopic": dead_letters, "maxDeliveryAttempts": 5}
        may_consume(self._world, name)
        may_consume(self._world, name, self._world.agent("gcp-sa-pubsub"))
        created = subscription(self._world, name, of_topic, **fields)
        self._service.sync()
        return created


@asynccontextmanager
async def emulator(address: str, project: str, endpoint: Endpoint) -> AsyncIterator[ContractBroker]:
    """Google's emulator at an address."""
    channel = grpc.aio.insecure_channel(address)
    yield _Emulator(channel, project, endpoint)
    await channel.close(None)


@asynccontextmanager
async def sandbox(folder: Path, endpoint: Endpoint) -> AsyncIterator[ContractBroker]:
    """The sandbox's service, on real time."""
    clock, world, hosts = SystemClock(), empty_world(folder), Hosts()
    hosts.add(WORKER_URL.removeprefix("https://"), endpoint.address)
    identity = IdentityService(world, clock)
    await identity.start()
    service = PubSub(world, identity, hosts, clock, folder / "pubsub")
    await service.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{service.address.port}")
    yield _Sandbox(channel, service, identity)
    await channel.close(None)
    await service.stop()
    await identity.stop()
