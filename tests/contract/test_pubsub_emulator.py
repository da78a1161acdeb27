"""Where Google's Pub/Sub emulator is known to differ from the service, each point asserted.

A point that fails here is a changed emulator: take it out of the table, and use what it can do now. What the service
does is Google's documentation; the sandbox's own tests say that it does that.

Not asked: what a restart loses, and how fast anything is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio
import pytest
from aiohttp import web
from google.api_core import exceptions
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.emulator

CALL: Final[dict[str, Any]] = {"retry": None, "timeout": 30}


@dataclass
class Emulator:
    """The emulator, and an endpoint that it can push to."""

    project: str
    endpoint: Endpoint
    publisher: PublisherAsyncClient
    subscriber: SubscriberAsyncClient

    async def topic(self, name: str = "jobs") -> str:
        created = await self.publisher.create_topic(name=f"projects/{self.project}/topics/{name}", **CALL)
        return str(created.name)

    async def subscription(self, topic: str, name: str = "one", **fields: Any) -> str:
        full = f"projects/{self.project}/subscriptions/{name}"
        request = types.Subscription(name=full, topic=topic, **{"ack_deadline_seconds": 60, **fields})
        await self.subscriber.create_subscription(request, **CALL)
        return full

    def push(self, path: str = "/", **fields: Any) -> types.PushConfig:
        return types.PushConfig(push_endpoint=f"http://127.0.0.1:{self.endpoint.address.port}{path}", **fields)

    async def publish(self, topic: str, *data: bytes, **fields: Any) -> None:
        messages = [types.PubsubMessage(data=each, **fields) for each in data]
        await self.publisher.publish(topic=topic, messages=messages, **CALL)

    async def pull(self, subscription: str, count: int = 1) -> list[types.ReceivedMessage]:
        response = await self.subscriber.pull(subscription=subscription, max_messages=count, **CALL)
        return list(response.received_messages)

    async def reject(self, subscription: str, received: types.ReceivedMessage) -> None:
        await self.subscriber.modify_ack_deadline(
            subscription=subscription, ack_ids=[received.ack_id], ack_deadline_seconds=0, **CALL
        )


@pytest.fixture
async def emulator(pubsub_emulator: str, project: str) -> AsyncIterator[Emulator]:
    channel = grpc.aio.insecure_channel(pubsub_emulator, options=[("grpc.max_send_message_length", -1)])
    async with Endpoint() as endpoint:
        yield Emulator(
            project,
            endpoint,
            PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel)),
            SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel)),
        )
    await channel.close(None)


async def sends_no_token(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    token = types.PushConfig.OidcToken(service_account_email="push@p.iam.gserviceaccount.com", audience="https://a")
    await emulator.subscription(topic, push_config=emulator.push(oidc_token=token))
    await emulator.publish(topic, b"x")
    [call] = await emulator.endpoint.received(1)
    return "Authorization" not in call.headers


async def pushes_no_count(emulator: Emulator) -> bool:
    topic, dead = await emulator.topic(), await emulator.topic("dead")
    policy = types.DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5)
    await emulator.subscription(topic, push_config=emulator.push(), dead_letter_policy=policy)
    emulator.endpoint.answer = lambda _: web.Response(status=500 if len(emulator.endpoint.calls) == 1 else 204)
    await emulator.publish(topic, b"x")
    calls = await emulator.endpoint.received(2)
    return all("deliveryAttempt" not in json.loads(call.body) for call in calls)


async def pushes_no_ordering_key(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    await emulator.subscription(topic, push_config=emulator.push(), enable_message_ordering=True)
    await emulator.publish(topic, b"x", ordering_key="k")
    [call] = await emulator.endpoint.received(1)
    return "orderingKey" not in json.loads(call.body)["message"]


async def takes_202_for_a_refusal(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    await emulator.subscription(topic, push_config=emulator.push())
    emulator.endpoint.answer = lambda _: web.Response(status=202 if len(emulator.endpoint.calls) == 1 else 204)
    await emulator.publish(topic, b"x")
    return len(await emulator.endpoint.received(2)) == 2


async def takes_203_for_an_acknowledgement(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    await emulator.subscription(topic, push_config=emulator.push())
    emulator.endpoint.answer = lambda _: web.Response(status=203)
    await emulator.publish(topic, b"first")
    await emulator.endpoint.received(1)
    emulator.endpoint.answer = lambda _: web.Response(status=500 if len(emulator.endpoint.calls) < 4 else 204)
    await emulator.publish(topic, b"second")
    calls = await emulator.endpoint.received(4)  # the second one's repetitions: the first had as long to come again
    return [call.json["message"]["data"] for call in calls].count("Zmlyc3Q=") == 1


async def keeps_no_retry_policy(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    policy = types.RetryPolicy(minimum_backoff={"seconds": 600}, maximum_backoff={"seconds": 600})
    await emulator.subscription(topic, push_config=emulator.push(), retry_policy=policy)
    emulator.endpoint.answer = lambda _: web.Response(status=500 if len(emulator.endpoint.calls) == 1 else 204)
    await emulator.publish(topic, b"x")
    return len(await emulator.endpoint.received(2)) == 2  # within 30 s, not in ten minutes


async def applies_no_filter(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    subscription = await emulator.subscription(topic, filter='attributes.kind = "wanted"')
    await emulator.publish(topic, b"x", attributes={"kind": "other"})
    return len(await emulator.pull(subscription)) == 1


async def overtakes_a_rejected_message_of_a_key(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    subscription = await emulator.subscription(topic, enable_message_ordering=True)
    await emulator.publish(topic, b"0", b"1", ordering_key="k")
    [first] = await emulator.pull(subscription)
    await emulator.reject(subscription, first)
    [following] = await emulator.pull(subscription)
    return bytes(following.message.data) == b"1"


async def accepts_a_short_ack_deadline(emulator: Emulator) -> bool:
    topic = await emulator.topic()
    return await accepted(emulator.subscription(topic, ack_deadline_seconds=5))


async def accepts_a_message_above_the_limit(emulator: Emulator) -> bool:
    return await accepted(emulator.publish(await emulator.topic(), b"x" * 10_000_001))


async def accepts_a_long_attribute_name(emulator: Emulator) -> bool:
    return await accepted(emulator.publish(await emulator.topic(), b"x", attributes={"a" * 300: "x"}))


async def accepted(call: Awaitable[object]) -> bool:
    try:
        await call
    except exceptions.InvalidArgument:
        return False
    return True


Check = Callable[[Emulator], Awaitable[bool]]

DIFFERENCES: Final[list[tuple[str, str, Check]]] = [
    ("a token with every push", "no Authorization header; the setting is stored", sends_no_token),
    ("deliveryAttempt where there is a dead-letter policy", "never on push", pushes_no_count),
    ("orderingKey in the envelope", "left out", pushes_no_ordering_key),
    ("202 acknowledges", "comes again", takes_202_for_a_refusal),
    ("203 does not acknowledge", "does", takes_203_for_an_acknowledgement),
    ("retry_policy sets the delay", "about a second, whatever it says", keeps_no_retry_policy),
    ("a filter lets through what it says", "stored, not applied", applies_no_filter),
    ("later messages of a key wait for a rejected one", "on pull they overtake", overtakes_a_rejected_message_of_a_key),
    ("ack deadline 10 to 600 s", "5 s is taken", accepts_a_short_ack_deadline),
    ("10 MB at most", "one byte more is taken", accepts_a_message_above_the_limit),
    ("attribute names of 256 bytes at most", "300 are taken", accepts_a_long_attribute_name),
]
"""What the service does, what the emulator does instead, and how to tell."""


@pytest.mark.parametrize(
    ("service", "instead", "differs"), DIFFERENCES, ids=[check.__name__ for *_, check in DIFFERENCES]
)
async def test_the_emulator_differs_as_it_is_known_to(
    emulator: Emulator, service: str, instead: str, differs: Check
) -> None:
    assert await differs(emulator), f"the emulator does now what the service does ({service}), and not: {instead}"
