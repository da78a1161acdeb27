"""Google's asynchronous Pub/Sub clients on the sandbox's service."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from runtime.contract.names import SCOPE_PUBSUB
from sandbox.identity.server import IdentityService
from sandbox.pubsub.server import PubSub
from tests.support.worlds import API

JOBS = "projects/p-test/topics/jobs"
PULLED = "projects/p-test/subscriptions/pulled"


class Clients:
    """Google's asynchronous clients, as the API's account."""

    def __init__(self, service: PubSub, identity: IdentityService) -> None:
        self.channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{service.address.port}", options=[("grpc.max_receive_message_length", -1)]
        )
        self.publisher = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=self.channel))
        self.subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=self.channel))
        self.metadata = [("authorization", f"Bearer {identity.access_token(API, SCOPE_PUBSUB)}")]

    async def publish(self, *data: str, **fields: Any) -> list[str]:
        messages = [types.PubsubMessage(data=each.encode(), **fields) for each in data]
        response = await self.publisher.publish(
            topic=JOBS, messages=messages, metadata=self.metadata, retry=None, timeout=30
        )
        return list(response.message_ids)

    async def pull(self, count: int = 10) -> list[types.ReceivedMessage]:
        response = await self.subscriber.pull(
            subscription=PULLED, max_messages=count, metadata=self.metadata, retry=None, timeout=30
        )
        return list(response.received_messages)

    async def acknowledge(self, *received: types.ReceivedMessage) -> None:
        ids = [each.ack_id for each in received]
        await self.subscriber.acknowledge(subscription=PULLED, ack_ids=ids, metadata=self.metadata, retry=None)

    async def modify(self, received: types.ReceivedMessage, seconds: int) -> None:
        await self.subscriber.modify_ack_deadline(
            subscription=PULLED,
            ack_ids=[received.ack_id],
            ack_deadline_seconds=seconds,
            metadata=self.metadata,
            retry=None,
        )
